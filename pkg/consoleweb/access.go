package consoleweb

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/duetime/duetime/internal/loopback"
)

// Role is what somebody may do on the page.
type Role string

// The roles.
const (
	roleNone    Role = "none"    // sees nothing; a Proxy may say it
	RoleRead    Role = "read"    // sees all views
	RoleOperate Role = "operate" // makes changes too
)

// Verbs of a Grant: what an operator may do.
const (
	VerbMove       = "move"       // tasks, one by one and many
	VerbCancel     = "cancel"     // the same
	VerbRequeue    = "requeue"    // many tasks
	VerbRetry      = "retry"      // dead tasks, one by one and many
	VerbDiscard    = "discard"    // the same
	VerbOperation  = "operation"  // pause, resume and stop mass changes
	VerbRecurrence = "recurrence" // pause, resume, stop and run recurrences
	VerbOwner      = "owner"      // block and unblock owners
	VerbQueue      = "queue"      // pause and resume queues, kinds and owners; set limits of queues, add them and retire them
	VerbLeader     = "leader"     // ask leaders to resign
)

// Verbs returns all verbs of a Grant.
func Verbs() []string {
	return []string{
		VerbMove, VerbCancel, VerbRequeue, VerbRetry, VerbDiscard, VerbOperation, VerbRecurrence, VerbOwner, VerbQueue, VerbLeader,
	}
}

// Grant is a role, and the verbs of the role operate; no verbs are all of them.
type Grant struct {
	Role  Role
	Verbs []string
}

// May reports whether the grant allows the verb.
func (g Grant) May(verb string) bool {
	return g.Role == RoleOperate && (len(g.Verbs) == 0 || slices.Contains(g.Verbs, verb))
}

// Check returns an error for a role or a verb that there isn't.
func (g Grant) Check() error {
	if !slices.Contains([]Role{roleNone, RoleRead, RoleOperate}, g.Role) {
		return fmt.Errorf("role %q is none of none, read and operate", g.Role)
	}
	if g.Role != RoleOperate && len(g.Verbs) > 0 {
		return fmt.Errorf("role %s has no verbs", g.Role)
	}
	for _, verb := range g.Verbs {
		if !slices.Contains(Verbs(), verb) {
			return fmt.Errorf("verb %q is none of %s", verb, strings.Join(Verbs(), ", "))
		}
	}
	return nil
}

// parseGrant reads a role, with verbs or without: read, operate, operate(move+cancel).
func parseGrant(text string) (Grant, error) {
	role, list, listed := strings.Cut(text, "(")
	g := Grant{Role: Role(role)}
	if listed {
		verbs, closed := strings.CutSuffix(list, ")")
		if !closed || verbs == "" {
			return Grant{}, fmt.Errorf("%q is no role such as read, operate or operate(move+cancel)", text)
		}
		g.Verbs = strings.Split(strings.ReplaceAll(verbs, ",", "+"), "+")
	}
	return g, g.Check()
}

// User is somebody who signs in by a password. Password is what HashPassword returns, or the password itself, of 12
// characters or more, of which Handler makes the hash: that takes about 0.1 s.
type User struct {
	Name, Password string
	Grant          Grant
}

// Token is a program that signs in by a token, of 16 characters or more.
type Token struct {
	Name, Token string
	Grant       Grant
}

// Proxy is a server that signs people in, and names them in a header of each request. Headers of other senders count for
// nothing. A proxy must replace both headers, whatever its clients send.
type Proxy struct {
	From       []netip.Prefix   // its addresses
	UserHeader string           // default X-Forwarded-User
	RoleHeader string           // with a role as ParseUsers reads it; empty: Roles say it
	Roles      map[string]Grant // by user; "*" is everybody else
}

// Errors of a request.
var (
	errNotSignedIn = errors.New("nobody is signed in")
	errForbidden   = errors.New("the role does not allow this")
	errOtherHost   = errors.New("the page without a sign-in answers this machine only, by a name of loopback")
	errManySignIns = errors.New("too many sign-ins wait to be compared")
)

const (
	minPassword = 12 // characters of a password that is no hash
	minToken    = 16
	maxName     = 100 // bytes of a user's name; the history cuts at 128
)

// identity is who asks.
type identity struct {
	name  string
	grant Grant
}

// actor is the name in the history: with an @, by which operators are told from services and workers.
func (i identity) actor() string {
	if strings.Contains(i.name, "@") {
		return i.name
	}
	return i.name + "@console"
}

// access knows who may do what.
type access struct {
	cfg       Config
	passwords *passwords
}

func newAccess(cfg Config) (*access, error) {
	signIns := len(cfg.Users) + len(cfg.Tokens) + len(cfg.Proxies)
	if signIns == 0 && cfg.Open == "" {
		return nil, errors.New("console: the page needs users, tokens or proxies, or Open on loopback")
	}
	if signIns > 0 && cfg.Open != "" {
		return nil, errors.New("console: Open lets everybody in, beside users, tokens or proxies")
	}
	names := map[string]bool{}
	for _, u := range cfg.Users {
		if err := checkLogin(u.Name, u.Grant, names); err != nil {
			return nil, err
		}
	}
	for _, t := range cfg.Tokens {
		if err := checkLogin(t.Name, t.Grant, names); err != nil {
			return nil, err
		}
		if len(t.Token) < minToken {
			return nil, fmt.Errorf("console: the token of %s has fewer than %d characters", t.Name, minToken)
		}
	}
	for _, p := range cfg.Proxies {
		if err := p.check(); err != nil {
			return nil, err
		}
	}
	var err error
	if cfg.Users, err = hashed(cfg.Users); err != nil {
		return nil, err
	}
	return &access{cfg: cfg, passwords: newPasswords(cfg.Users)}, nil
}

func checkLogin(name string, g Grant, names map[string]bool) error {
	if !validName(name) || strings.Contains(name, ":") {
		return fmt.Errorf("console: %q is no name of 1 to %d printable characters without a colon", name, maxName)
	}
	if names[name] {
		return fmt.Errorf("console: %s is named twice", name)
	}
	names[name] = true
	if err := g.Check(); err != nil {
		return fmt.Errorf("console: %s: %w", name, err)
	}
	return nil
}

func (p Proxy) check() error {
	if len(p.From) == 0 {
		return errors.New("console: a proxy has no addresses")
	}
	if p.RoleHeader == "" && len(p.Roles) == 0 {
		return errors.New("console: a proxy needs a header with the role, or roles by user")
	}
	for user, g := range p.Roles {
		if err := g.Check(); err != nil {
			return fmt.Errorf("console: %s: %w", user, err)
		}
	}
	return nil
}

// validName reports whether a name may stand in the history.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && strings.ToValidUTF8(name, "") == name &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}

// challenge names the ways to sign in.
func (a *access) challenge(header http.Header) {
	if len(a.cfg.Users) > 0 {
		header.Add("WWW-Authenticate", `Basic realm="duetime", charset="UTF-8"`)
	}
	if len(a.cfg.Tokens) > 0 {
		header.Add("WWW-Authenticate", `Bearer realm="duetime"`)
	}
}

// identify finds out who asks. Its errors are errNotSignedIn, errOtherHost, errManySignIns, and that of the request's context.
func (a *access) identify(r *http.Request) (identity, error) {
	nobody := identity{grant: Grant{Role: roleNone}}
	if a.cfg.Open != "" {
		if !loopback.Sent(r) {
			return nobody, errOtherHost
		}
		return identity{a.cfg.Open, Grant{Role: RoleOperate}}, nil
	}
	if who, ok := a.byProxy(r); ok {
		return who, nil
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return a.byToken(token, nobody)
	}
	name, password, ok := r.BasicAuth()
	if !ok || len(a.cfg.Users) == 0 {
		return nobody, errNotSignedIn
	}
	user := User{Password: absentPassword}
	if i := slices.IndexFunc(a.cfg.Users, func(u User) bool { return u.Name == name }); i >= 0 {
		user = a.cfg.Users[i]
	}
	// Of an absent user a password is compared too: the time must not tell who is there.
	right, err := a.passwords.right(r.Context(), networkOf(r), name, password, user.Password)
	switch {
	case err != nil:
		return nobody, err
	case !right || user.Name == "":
		return nobody, errNotSignedIn
	}
	return identity{user.Name, user.Grant}, nil
}

const subnetBits = 64 // of an IPv6 address: who has one has its whole subnet

// networkOf is whose sign-ins are counted together: those of an IPv4 address, or of an IPv6 subnet.
func networkOf(r *http.Request) netip.Prefix {
	addr := senderOf(r)
	network, _ := addr.Prefix(min(addr.BitLen(), subnetBits)) // none for no address
	return network
}

// senderOf is the address from which a request comes; the zero address, which is in no network, if it names none.
func senderOf(r *http.Request) netip.Addr {
	sender, _ := netip.ParseAddrPort(r.RemoteAddr)
	return sender.Addr().Unmap().WithZone("")
}

// byToken compares with all tokens, in the same time whichever it is.
func (a *access) byToken(token string, nobody identity) (identity, error) {
	found, err := nobody, errNotSignedIn
	given := sha256.Sum256([]byte(token))
	for _, t := range a.cfg.Tokens {
		known := sha256.Sum256([]byte(t.Token))
		if subtle.ConstantTimeCompare(given[:], known[:]) == 1 {
			found, err = identity{t.Name, t.Grant}, nil
		}
	}
	return found, err
}

// byProxy reads the headers of a proxy; false if the sender is none, or has signed nobody in. A header that stands twice may be
// half the client's: it counts for nothing.
func (a *access) byProxy(r *http.Request) (identity, bool) {
	addr := senderOf(r)
	for _, p := range a.cfg.Proxies {
		if !slices.ContainsFunc(p.From, func(from netip.Prefix) bool { return from.Contains(addr) }) {
			continue
		}
		users := r.Header.Values(cmp.Or(p.UserHeader, "X-Forwarded-User"))
		if len(users) != 1 || !validName(users[0]) {
			return identity{}, false
		}
		return identity{users[0], p.grant(r, users[0])}, true
	}
	return identity{}, false
}

// grant is the role of a user whom the proxy names: none if nothing readable says it.
func (p Proxy) grant(r *http.Request, user string) Grant {
	none := Grant{Role: roleNone}
	if p.RoleHeader != "" {
		given := r.Header.Values(p.RoleHeader)
		if len(given) != 1 {
			return none
		}
		g, err := parseGrant(given[0])
		if err != nil {
			return none
		}
		return g
	}
	if g, named := p.Roles[user]; named {
		return g
	}
	if g, named := p.Roles["*"]; named {
		return g
	}
	return none
}
