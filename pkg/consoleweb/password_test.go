package consoleweb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
)

const (
	rightPassword = "correct horse battery"
	wrongPassword = "correct horse batterz"
)

// guarded lets in ann, by a hash that takes few rounds.
func guarded(t *testing.T) *access {
	t.Helper()
	hash, err := hashPassword(rightPassword, minHashRounds)
	pipelinetest.Must(t, err)
	a, err := newAccess(Config{Users: []User{{Name: "ann", Password: hash, Grant: Grant{Role: RoleRead}}}})
	pipelinetest.Must(t, err)
	return a
}

// signInOf is a request of ann's from an address.
func signInOf(ctx context.Context, address, password string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/now", nil)
	r.RemoteAddr = address + ":4567"
	r.SetBasicAuth("ann", password)
	return r
}

// Where nobody signs in by a password, none is compared.
func TestNoUsersNoHash(t *testing.T) {
	t.Parallel()
	token := Token{Name: "bot", Token: "0123456789abcdef", Grant: Grant{Role: RoleRead}}
	a, err := newAccess(Config{Tokens: []Token{token}})
	pipelinetest.Must(t, err)
	ctx, leave := context.WithCancel(t.Context())
	leave() // ends a comparison by another error
	if _, err := a.identify(signInOf(ctx, "10.0.0.1", wrongPassword)); !errors.Is(err, errNotSignedIn) {
		t.Errorf("got %v, want %v", err, errNotSignedIn)
	}
}

// A client that hangs up leaves nothing behind that waits or computes.
func TestSignInsEndWithTheirClients(t *testing.T) {
	t.Parallel()
	const guesses = 50
	synctest.Test(t, func(t *testing.T) {
		a := guarded(t)
		a.passwords.busy <- struct{}{} // a hash is computed
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, guesses)
		for range guesses {
			go func() {
				_, err := a.identify(signInOf(ctx, "10.0.0.1", wrongPassword))
				ended <- err
			}()
		}
		synctest.Wait()
		if n := guesses - len(ended); n != maxNetworkSignIns {
			t.Errorf("%d sign-ins wait, want %d", n, maxNetworkSignIns)
		}
		leave()
		synctest.Wait()
		if len(ended) != guesses || a.passwords.total != 0 || len(a.passwords.waiting) != 0 {
			t.Errorf("%d of %d have ended, %d are counted: %v", len(ended), guesses, a.passwords.total, a.passwords.waiting)
		}
		<-a.passwords.busy
		for range guesses {
			if _, err := a.identify(signInOf(ctx, "10.0.0.1", wrongPassword)); !errors.Is(err, context.Canceled) {
				t.Errorf("a sign-in whose client has left was compared: %v", err)
			}
		}
	})
}

// However many guess, few sign-ins wait, and there is room for one from elsewhere.
func TestSignInsThatWaitAreFew(t *testing.T) {
	t.Parallel()
	const guesses = 100
	synctest.Test(t, func(t *testing.T) {
		a := guarded(t)
		a.passwords.busy <- struct{}{} // a hash is computed
		ask := func(address, password string) chan error {
			ended := make(chan error, 1)
			go func() {
				_, err := a.identify(signInOf(t.Context(), address, password))
				ended <- err
			}()
			return ended
		}
		for i := range guesses { // of one machine, which has many addresses
			ask(fmt.Sprintf("[2001:db8::%d]", i), wrongPassword)
		}
		synctest.Wait()
		if a.passwords.total != maxNetworkSignIns {
			t.Errorf("%d sign-ins of one network wait, want %d", a.passwords.total, maxNetworkSignIns)
		}
		right := ask("10.0.0.1", rightPassword)
		synctest.Wait()
		for i := range guesses {
			ask(fmt.Sprintf("10.0.1.%d", i), wrongPassword)
		}
		synctest.Wait()
		if a.passwords.total != maxSignIns {
			t.Errorf("%d sign-ins wait, want %d", a.passwords.total, maxSignIns)
		}
		if err := <-ask("10.0.0.2", wrongPassword); !errors.Is(err, errManySignIns) {
			t.Errorf("one more: %v, want %v", err, errManySignIns)
		}
		<-a.passwords.busy
		if err := <-right; err != nil {
			t.Errorf("the right password: %v", err)
		}
		synctest.Wait()
		if a.passwords.total != 0 || len(a.passwords.waiting) != 0 {
			t.Errorf("%d are counted: %v", a.passwords.total, a.passwords.waiting)
		}
	})
}

// Requests that a browser sends at once take one comparison.
func TestSignInOfABrowserIsComparedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := guarded(t)
		a.passwords.busy <- struct{}{}
		ended := make(chan error, 1)
		go func() {
			_, err := a.identify(signInOf(t.Context(), "10.0.0.1", wrongPassword))
			ended <- err
		}()
		synctest.Wait()
		// As if the request before it had this password, and it was right.
		a.passwords.seen.Store("ann", a.passwords.digest("ann", wrongPassword, a.cfg.Users[0].Password))
		<-a.passwords.busy
		if err := <-ended; err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// A sign-in beyond the bounds is told when to try again.
func TestTooManySignInsAreTold(t *testing.T) {
	t.Parallel()
	s := &site{c: new(console.Console), access: guarded(t), log: slog.New(slog.DiscardHandler)}
	s.access.passwords.total = maxSignIns
	w := httptest.NewRecorder()
	s.visited(func(http.ResponseWriter, *visit) { t.Error("let in") }).ServeHTTP(w, signInOf(t.Context(), "10.0.0.1", rightPassword))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "5" || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("status %d, %v: %s", w.Code, w.Header(), w.Body)
	}
}

// Whoever is named, a wrong password is compared with a hash, and by the most rounds that one has.
func TestPasswordsAreHashes(t *testing.T) {
	t.Parallel()
	hash, err := hashPassword(rightPassword, minHashRounds)
	pipelinetest.Must(t, err)
	read := Grant{Role: RoleRead}
	cfg := Config{Users: []User{{"ann", rightPassword, read}, {"bob", hash, read}}}
	a, err := newAccess(cfg)
	pipelinetest.Must(t, err)
	for _, u := range a.cfg.Users {
		if _, isHash, err := parseHash(u.Password); err != nil || !isHash {
			t.Errorf("%s keeps the password %q: %v", u.Name, u.Password, err)
		}
	}
	if a.passwords.rounds != hashRounds {
		t.Errorf("a comparison takes %d rounds, want %d", a.passwords.rounds, hashRounds)
	}
	if cfg.Users[0].Password != rightPassword {
		t.Error("the caller's users were changed")
	}
	if who, err := a.identify(signInOf(t.Context(), "10.0.0.1", rightPassword)); err != nil || who.name != "ann" {
		t.Errorf("the plain password: %+v, %v", who, err)
	}
}
