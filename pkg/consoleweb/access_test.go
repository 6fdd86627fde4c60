package consoleweb_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/task"
)

const (
	longPassword = "correct horse battery"
	longToken    = "0123456789abcdef"
)

var (
	mayRead   = consoleweb.Grant{Role: consoleweb.RoleRead}
	mayAll    = consoleweb.Grant{Role: consoleweb.RoleOperate}
	mayCancel = consoleweb.Grant{Role: consoleweb.RoleOperate, Verbs: []string{consoleweb.VerbCancel}}
	mayNone   = consoleweb.Grant{Role: "none"}
)

// signIn is a way to sign in.
type signIn func(r *http.Request, role string)

// signIns are the three ways, with a user of each role: none, read, cancel and all.
func signIns(t *testing.T) (consoleweb.Config, map[string]signIn) {
	t.Helper()
	hash, err := consoleweb.HashPassword(longPassword)
	pipelinetest.Must(t, err)
	grants := map[string]consoleweb.Grant{"none": mayNone, "read": mayRead, "cancel": mayCancel, "all": mayAll}
	var cfg consoleweb.Config
	roles := map[string]consoleweb.Grant{}
	for name, g := range grants {
		password := longPassword
		if name == "all" {
			password = hash
		}
		cfg.Users = append(cfg.Users, consoleweb.User{Name: name, Password: password, Grant: g})
		cfg.Tokens = append(cfg.Tokens, consoleweb.Token{Name: "bot-" + name, Token: longToken + name, Grant: g})
		roles[name+"@corp"] = g
	}
	cfg.Proxies = []consoleweb.Proxy{
		{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Roles: roles},
		{From: []netip.Prefix{netip.MustParsePrefix("fd00::/8")}, UserHeader: "X-User", RoleHeader: "X-Role"},
	}
	return cfg, map[string]signIn{
		"basic":  func(r *http.Request, role string) { r.SetBasicAuth(role, longPassword) },
		"bearer": func(r *http.Request, role string) { r.Header.Set("Authorization", "Bearer "+longToken+role) },
		"proxy": func(r *http.Request, role string) {
			r.RemoteAddr = "10.1.2.3:4567"
			r.Header.Set("X-Forwarded-User", role+"@corp")
		},
		"proxy with a role": func(r *http.Request, role string) {
			r.RemoteAddr = "[fd00::7]:4567"
			r.Header.Set("X-User", role)
			roles := map[string]string{"none": "none", "read": "read", "cancel": "operate(cancel)", "all": "operate"}
			r.Header.Set("X-Role", roles[role])
		},
	}
}

// Who may do what, by each way to sign in. What is refused changes nothing, and what is done bears the user's name.
func TestPageRoles(t *testing.T) {
	t.Parallel()
	cfg, ways := signIns(t)
	p := openPages(t, cfg)
	for way, in := range ways {
		for role, want := range map[string]struct{ view, cancel, move int }{
			"none": {403, 403, 403}, "read": {200, 403, 403}, "cancel": {200, 200, 403}, "all": {200, 200, 200},
		} {
			made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
			asked := func(method, at string, form url.Values, status int) string {
				r := request(method, at, form)
				in(r, role)
				w := p.do(r)
				if w.Code != status {
					t.Errorf("%s, %s: %s %s: status %d, want %d: %s", way, role, method, at, w.Code, status, w.Body)
				}
				return w.Body.String()
			}
			asked(http.MethodGet, "tasks", nil, want.view)
			page := asked(http.MethodGet, "task?id="+made.ID.String(), nil, want.view)
			if offered := strings.Contains(page, "do=task.cancel"); offered != (want.cancel == 200) {
				t.Errorf("%s, %s: the button is offered: %v", way, role, offered)
			}
			asked(http.MethodGet, "change?do=task.cancel&id="+made.ID.String(), nil, want.cancel)
			asked(http.MethodPost, "change", url.Values{"do": {"task.move"}, "id": {made.ID.String()}, "at": {"+2h"}}, want.move)
			asked(http.MethodPost, "change", url.Values{"do": {"task.cancel"}, "id": {made.ID.String()}}, want.cancel)
			life := p.task(made.ID)
			changes := 0
			for _, status := range []int{want.cancel, want.move} {
				if status == 200 {
					changes++
				}
			}
			if len(life.History)-1 != changes || int(life.Version)-1 != changes {
				t.Errorf("%s, %s: %d changes were to be made: %+v", way, role, changes, life)
			}
			for _, line := range life.History[1:] {
				if !strings.Contains(line.Actor, role) || !strings.Contains(line.Actor, "@") {
					t.Errorf("%s, %s: the history names %q", way, role, line.Actor)
				}
			}
		}
	}
}

// Each change asks for its own verb.
func TestPageVerbs(t *testing.T) {
	t.Parallel()
	changes := map[string]string{
		"task.move": consoleweb.VerbMove, "task.cancel": consoleweb.VerbCancel, "task.retry": consoleweb.VerbRetry,
		"task.discard": consoleweb.VerbDiscard,
		"queue.add":    consoleweb.VerbQueue, "queue.retire": consoleweb.VerbQueue,
		"queue.pause": consoleweb.VerbQueue, "queue.resume": consoleweb.VerbQueue, "queue.limit": consoleweb.VerbQueue,
		"pause.tasks": consoleweb.VerbQueue, "pause.end": consoleweb.VerbQueue,
		"leader.resign": consoleweb.VerbLeader, "operation.pause": consoleweb.VerbOperation, "operation.resume": consoleweb.VerbOperation,
		"operation.stop": consoleweb.VerbOperation, "recurrence.pause": consoleweb.VerbRecurrence,
		"recurrence.resume": consoleweb.VerbRecurrence,
		"recurrence.stop":   consoleweb.VerbRecurrence, "recurrence.run": consoleweb.VerbRecurrence,
		"owner.block": consoleweb.VerbOwner, "owner.unblock": consoleweb.VerbOwner,
		"dead.retry": consoleweb.VerbRetry, "dead.discard": consoleweb.VerbDiscard,
		"bulk&verb=shift": consoleweb.VerbMove, "bulk&verb=cancel": consoleweb.VerbCancel, "bulk&verb=requeue": consoleweb.VerbRequeue,
		"bulk&verb=retry": consoleweb.VerbRetry, "bulk&verb=discard": consoleweb.VerbDiscard, "bulk.undo": consoleweb.VerbMove,
	}
	var cfg consoleweb.Config
	for _, verb := range consoleweb.Verbs() {
		grant := consoleweb.Grant{Role: consoleweb.RoleOperate, Verbs: []string{verb}}
		cfg.Tokens = append(cfg.Tokens, consoleweb.Token{Name: verb, Token: longToken + verb, Grant: grant})
	}
	p := openPages(t, cfg)
	for name, needed := range changes {
		for _, verb := range consoleweb.Verbs() {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				r := request(method, "change?do="+name, nil)
				r.Header.Set("Authorization", "Bearer "+longToken+verb)
				if got := p.do(r).Code; (got == http.StatusForbidden) == (verb == needed) {
					t.Errorf("%s %s with the verb %s: status %d", method, name, verb, got)
				}
			}
		}
	}
}

// What looks like a sign-in, and is none.
func TestPageRefusesStrangers(t *testing.T) {
	t.Parallel()
	cfg, _ := signIns(t)
	p := openPages(t, cfg)
	for what, change := range map[string]func(r *http.Request){
		"nobody":                 func(*http.Request) {},
		"wrong password":         func(r *http.Request) { r.SetBasicAuth("all", longPassword+"x") },
		"no password":            func(r *http.Request) { r.SetBasicAuth("all", "") },
		"the hash as a password": func(r *http.Request) { r.SetBasicAuth("all", cfgPassword(cfg, "all")) },
		"unknown user":           func(r *http.Request) { r.SetBasicAuth("eve", longPassword) },
		"wrong token":            func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+longToken) },
		"empty token":            func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"a header from elsewhere": func(r *http.Request) {
			r.Header.Set("X-Forwarded-User", "all@corp")
		},
		"two headers": func(r *http.Request) {
			r.RemoteAddr = "10.1.2.3:4567"
			r.Header["X-Forwarded-User"] = []string{"all@corp", "read@corp"}
		},
		"a header that is no name": func(r *http.Request) {
			r.RemoteAddr = "10.1.2.3:4567"
			r.Header["X-Forwarded-User"] = []string{"all@corp\u202e"}
		},
	} {
		r := request(http.MethodGet, "tasks", nil)
		change(r)
		if w := p.do(r); w.Code != http.StatusUnauthorized || len(w.Header().Values("WWW-Authenticate")) != 2 {
			t.Errorf("%s: status %d, %v", what, w.Code, w.Header())
		}
	}
	for what, role := range map[string][]string{"no role": nil, "two": {"operate", "read"}, "none that there is": {"root"}} {
		r := request(http.MethodGet, "tasks", nil)
		r.RemoteAddr = "[fd00::7]:4567"
		r.Header.Set("X-User", "eve")
		r.Header["X-Role"] = role
		if w := p.do(r); w.Code != http.StatusForbidden {
			t.Errorf("%s: status %d", what, w.Code)
		}
	}
}

func cfgPassword(cfg consoleweb.Config, name string) string {
	for _, u := range cfg.Users {
		if u.Name == name {
			return u.Password
		}
	}
	return ""
}

// Another site's page can't make a signed-in browser change anything.
func TestPageRefusesOtherSites(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	form := url.Values{"do": {"task.cancel"}, "id": {made.ID.String()}}
	for what, change := range map[string]func(r *http.Request){
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a neighbour":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an old browser": func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
		},
		"a name that leads here": func(r *http.Request) {
			r.Host = "evil.example:8090"
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		},
		"a link": func(r *http.Request) { r.Method = http.MethodGet },
	} {
		r := request(http.MethodPost, "change", form)
		change(r)
		if w := p.do(r); w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", what, w.Code)
		}
		if life := p.task(made.ID); life.State != task.Pending || life.Version != 1 {
			t.Fatalf("%s has changed the task: %+v", what, life)
		}
	}
	r := request(http.MethodPost, "change", form)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if w := p.do(r); w.Code != http.StatusOK {
		t.Errorf("the page itself: status %d: %s", w.Code, w.Body)
	}
}

// Without a sign-in only names of this machine are answered.
func TestPageOpenIsForThisMachine(t *testing.T) {
	t.Parallel()
	p := open(t)
	for host, want := range map[string]int{
		"localhost:8090": 200, "127.0.0.1:8090": 200, "[::1]:8090": 200, "127.0.0.1": 200, "LOCALHOST": 200,
		"duetime.example": 403, "10.0.0.1:8090": 403, "127.0.0.1.evil.example": 403, "": 403,
	} {
		r := request(http.MethodGet, "tasks", nil)
		r.Host = host
		if w := p.do(r); w.Code != want {
			t.Errorf("%q: status %d, want %d", host, w.Code, want)
		}
	}
	for sender, want := range map[string]int{
		"127.0.0.1:4567": 200, "[::1]:4567": 200, "[::ffff:127.0.0.1]:4567": 200,
		"10.1.2.3:4567": 403, "[fd00::7]:4567": 403, "[fe80::1%eth0]:4567": 403, "": 403, "@": 403,
	} {
		r := request(http.MethodGet, "tasks", nil)
		r.RemoteAddr = sender
		if w := p.do(r); w.Code != want {
			t.Errorf("from %q: status %d, want %d", sender, w.Code, want)
		}
	}
	r := request(http.MethodGet, "tasks", nil)
	r.RemoteAddr = "@"
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "console.sock", Net: "unix"}))
	if w := p.do(r); w.Code != http.StatusOK {
		t.Errorf("by a socket of this machine: status %d", w.Code)
	}
}

// Payloads are hidden from the role read, where the configuration says so.
func TestPageHidesPayloads(t *testing.T) {
	t.Parallel()
	cfg, ways := signIns(t)
	for _, hide := range []bool{true, false} {
		cfg.HidePayloads = hide
		p := openPages(t, cfg)
		made := p.schedule(charge.New("ada", Charge{98765}, task.In(time.Hour)))
		for role, shown := range map[string]bool{"read": !hide, "cancel": true} {
			r := request(http.MethodGet, "task?id="+made.ID.String(), nil)
			ways["bearer"](r, role)
			if w := p.do(r); strings.Contains(w.Body.String(), "98765") != shown {
				t.Errorf("hidden %v, role %s: %s", hide, role, w.Body)
			}
		}
	}
}

// A configuration that would let in nobody, everybody, or a guesser is refused.
func TestPageConfigIsRefused(t *testing.T) {
	t.Parallel()
	user := consoleweb.User{Name: "ann", Password: longPassword, Grant: mayRead}
	for says, cfg := range map[string]consoleweb.Config{
		"needs users":       {},
		"lets everybody in": {Open: "ann", Users: []consoleweb.User{user}},
		"named twice":       {Users: []consoleweb.User{user, user}},
		"fewer than 12":     {Users: []consoleweb.User{{Name: "ann", Password: "short", Grant: mayRead}}},
		"fewer than 16":     {Tokens: []consoleweb.Token{{Name: "bot", Token: "short", Grant: mayRead}}},
		"is no name":        {Users: []consoleweb.User{{Name: "a:b", Password: longPassword, Grant: mayRead}}},
		`role ""`:           {Users: []consoleweb.User{{Name: "ann", Password: longPassword}}},
		`verb "fly"`: {Users: []consoleweb.User{{
			Name: "ann", Password: longPassword, Grant: consoleweb.Grant{Role: consoleweb.RoleOperate, Verbs: []string{"fly"}},
		}}},
		"rounds": {Users: []consoleweb.User{{
			Name: "ann", Password: "pbkdf2-sha256$1$AAAAAAAAAAAAAAAAAAAAAA$AAAA", Grant: mayRead,
		}}},
		"no addresses": {Proxies: []consoleweb.Proxy{{Roles: map[string]consoleweb.Grant{"ann": mayRead}}}},
		"a header with the role": {
			Proxies: []consoleweb.Proxy{{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
		},
	} {
		if _, err := consoleweb.Handler(nil, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error about %q", err, says)
		}
	}
}

// A sign-in by a hash costs its time once; later requests of the browser do not.
func TestPageRemembersPasswords(t *testing.T) {
	t.Parallel()
	cfg, ways := signIns(t)
	h, err := consoleweb.Handler(new(console.Console), cfg)
	pipelinetest.Must(t, err)
	for _, password := range []string{longPassword, longPassword, longPassword + "x", longPassword} {
		r := request(http.MethodGet, "static/page.css", nil)
		ways["basic"](r, "all")
		r.SetBasicAuth("all", password)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if right := w.Code == http.StatusOK; right != (password == longPassword) {
			t.Errorf("password %q: status %d", password, w.Code)
		}
	}
}
