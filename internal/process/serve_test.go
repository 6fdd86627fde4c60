package process

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func TestAdmin(t *testing.T) {
	t.Parallel()
	h := newHarness()
	expect := func(url string, code int) {
		t.Helper()
		if got, body := get(t, url); got != code {
			t.Errorf("%s: got %d %s, want %d", url, got, body, code)
		}
	}
	code := h.main(func(ctx context.Context, env *Env) error {
		addr, err := env.Serve(ctx, "admin", "127.0.0.1:0", env.adminHandler(""))
		if err != nil {
			return err
		}
		base := "http://" + addr.String()
		expect(base+"/livez", http.StatusOK)
		expect(base+"/readyz", http.StatusServiceUnavailable)
		env.Ready()
		expect(base+"/readyz", http.StatusOK)
		expect(base+"/other", http.StatusNotFound)
		for _, hangs := range []error{errors.New("worker hangs"), nil} {
			env.SetAlive(func() error { return hangs })
			if hangs != nil {
				expect(base+"/livez", http.StatusServiceUnavailable)
			}
		}
		if _, body := get(t, base+"/metrics"); !strings.Contains(body, "go_goroutines ") {
			t.Errorf("/metrics without the runtime's: %s", body)
		}
		// This closer runs before the server's: the server must still answer, and report that the process stops.
		env.OnStop("work", func(context.Context) error {
			expect(base+"/livez", http.StatusOK)
			expect(base+"/readyz", http.StatusServiceUnavailable)
			return nil
		})
		h.signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil
	})
	if code != 0 {
		t.Errorf("code %d: %s", code, h.err)
	}
}

func TestServeFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	h := newHarness()
	answered := make(chan int, 1)
	h.main(func(ctx context.Context, env *Env) error {
		entered := make(chan struct{})
		addr, err := env.Serve(ctx, "api", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-ctx.Done() // the stop has begun
			if r.Context().Err() != nil {
				w.WriteHeader(http.StatusTeapot)
			}
		}))
		if err != nil {
			return err
		}
		go func() {
			code, _ := get(t, "http://"+addr.String())
			answered <- code
		}()
		<-entered
		h.signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil
	})
	if code := <-answered; code != http.StatusOK {
		t.Errorf("the request in flight got %d, want 200", code)
	}
}

func TestTakenAddressIsAnError(t *testing.T) {
	t.Parallel()
	h := newHarness()
	code := h.main(func(ctx context.Context, env *Env) error {
		if err := env.ServeAdmin(ctx, "", ""); err != nil {
			t.Errorf("empty address: %v", err)
		}
		addr, err := env.Serve(ctx, "api", "127.0.0.1:0", http.NotFoundHandler())
		if err != nil {
			return err
		}
		return env.ServeAdmin(ctx, addr.String(), "")
	})
	if said := h.err.String(); code != 1 || !strings.Contains(said, "event: serve admin: listen tcp 127.0.0.1:") {
		t.Errorf("code %d, said %s", code, said)
	}
}
