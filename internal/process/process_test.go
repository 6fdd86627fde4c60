package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/duetime/duetime/internal/build"
	"github.com/duetime/duetime/internal/wait"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("PROCESS_TEST_CHILD"); mode != "" {
		os.Exit(child(mode))
	}
	goleak.VerifyTestMain(m)
}

// stderr may be read while a program still writes to it.
type stderr struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *stderr) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// harness is a program whose standard streams, signals and exit belong to the test.
type harness struct {
	program
	out, err *stderr
	signals  chan os.Signal
	forced   chan int // the code that exit was called with
}

func newHarness(args ...string) *harness {
	h := &harness{out: &stderr{}, err: &stderr{}, signals: make(chan os.Signal, 2), forced: make(chan int, 1)}
	h.program = program{
		name: "event", args: args, defaultConfig: "configs/duetime.yaml", stdout: h.out, stderr: h.err, signals: h.signals,
		exit: func(code int) { h.forced <- code }, adopt: func(*slog.Logger) {}, stopTimeout: time.Minute, closeTimeout: time.Minute,
	}
	return h
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want Flags
		code int
		says string // on stderr
	}{
		{nil, Flags{Config: "configs/duetime.yaml"}, 0, ""},
		{[]string{"--config", "a.yaml"}, Flags{Config: "a.yaml", Explicit: true}, 0, ""},
		{[]string{"-config=configs/duetime.yaml"}, Flags{Config: "configs/duetime.yaml", Explicit: true}, 0, ""},
		{[]string{"--confg", "a"}, Flags{}, 2, "event: flag provided but not defined: -confg (see --help)\n"},
		{[]string{"--config"}, Flags{}, 2, "event: flag needs an argument: -config (see --help)\n"},
		{[]string{"up"}, Flags{}, 2, "event: unexpected argument \"up\" (see --help)\n"},
	} {
		h := newHarness(c.args...)
		var got Flags
		code := h.main(func(_ context.Context, env *Env) error { got = env.Flags; return nil })
		if diff := cmp.Diff(c.want, got); diff != "" || code != c.code {
			t.Errorf("%q: code %d, want %d; flags (-want +got):\n%s", c.args, code, c.code, diff)
		}
		if c.code != 0 && h.err.String() != c.says {
			t.Errorf("%q: said %q, want %q", c.args, h.err, c.says)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	h := newHarness("--help")
	code := h.main(func(context.Context, *Env) error { t.Error("run was called"); return nil })
	if code != 0 || h.err.String() != "" || !strings.Contains(h.out.String(), "Usage: event [--config path]") {
		t.Errorf("code %d, stdout %q, stderr %q", code, h.out, h.err)
	}
}

func TestErrorIsOneClearLine(t *testing.T) {
	t.Parallel()
	h := newHarness()
	code := h.main(func(context.Context, *Env) error { return errors.New("config x:\n shards: 0 is below the limit 1") })
	if want := "event: config x: shards: 0 is below the limit 1\n"; code != 1 || h.err.String() != want {
		t.Errorf("code %d, said %q, want 1, %q", code, h.err, want)
	}

	h = newHarness()
	code = h.main(func(_ context.Context, env *Env) error {
		if err := env.SetLog("error", "text"); err != nil {
			return err
		}
		return fmt.Errorf("open mysql: %w", wait.Fatal(errors.New("access denied")))
	})
	if got := h.err.String(); code != 1 || strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=ERROR msg=exiting err="open mysql: access denied"`) {
		t.Errorf("code %d, said %q", code, got)
	}
}

func TestClosesInReverseByName(t *testing.T) {
	t.Parallel()
	h := newHarness()
	var got []string
	code := h.main(func(ctx context.Context, env *Env) error {
		closes := func(name string, err error) {
			env.OnStop(name, func(context.Context) error { got = append(got, name); return err })
		}
		closes("mysql", nil)
		closes("redis", errors.New("away"))
		closes("http", nil)
		h.signals <- syscall.SIGTERM
		<-ctx.Done()
		return ctx.Err()
	})
	if diff := cmp.Diff([]string{"http", "redis", "mysql"}, got); diff != "" || code != 0 {
		t.Errorf("code %d; closed (-want +got):\n%s", code, diff)
	}
	if said := h.err.String(); !strings.Contains(said, `"msg":"close","what":"redis","err":"away"`) {
		t.Errorf("said %s", said)
	}
}

func TestCodeAfterASignal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"clean":       {nil, 0},
		"cancelled":   {context.Canceled, 0},
		"server away": {errors.New("bad connection"), 0},
		"fatal":       {fmt.Errorf("open: %w", wait.Fatal(errors.New("access denied"))), 1},
	} {
		h := newHarness()
		code := h.main(func(ctx context.Context, _ *Env) error {
			h.signals <- syscall.SIGINT
			<-ctx.Done()
			return c.err
		})
		if code != c.code {
			t.Errorf("%s: code %d, want %d", name, code, c.code)
		}
	}
}

func TestSecondSignalForces(t *testing.T) {
	t.Parallel()
	h := newHarness()
	h.main(func(ctx context.Context, env *Env) error {
		env.OnStop("mysql", func(context.Context) error {
			h.signals <- syscall.SIGTERM
			if code := <-h.forced; code != 1 {
				t.Errorf("forced with code %d, want 1", code)
			}
			return nil
		})
		h.signals <- syscall.SIGTERM
		<-ctx.Done()
		return nil
	})
	if said := h.err.String(); !strings.Contains(said, "event: stopped by force: second signal (terminated); open: mysql\n") {
		t.Errorf("said %s", said)
	}
}

func TestTooLongForces(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]bool{"after a signal": true, "after an error": false} {
		h := newHarness()
		h.stopTimeout, h.closeTimeout = 20*time.Millisecond, time.Millisecond
		h.main(func(ctx context.Context, env *Env) error {
			env.OnStop("kafka", func(ctx context.Context) error {
				<-ctx.Done() // closeTimeout ends first, so that a closer that honours it is never cut off
				<-h.forced
				return context.Cause(ctx)
			})
			if signal {
				h.signals <- syscall.SIGTERM
				<-ctx.Done()
			}
			return errors.New("away")
		})
		if said := h.err.String(); !strings.Contains(said, "open: kafka\n") {
			t.Errorf("%s: said %s", name, said)
		}
	}
}

// Handlers that may go on for longer after a stop are not ended by force meanwhile.
func TestALongDrainIsAwaited(t *testing.T) {
	t.Parallel()
	h := newHarness()
	h.stopTimeout, h.closeTimeout = 20*time.Millisecond, 10*time.Millisecond
	code := h.main(func(ctx context.Context, env *Env) error {
		env.SetDrain(usualDrain + time.Minute)
		h.signals <- syscall.SIGTERM
		<-ctx.Done()
		time.Sleep(5 * h.stopTimeout) // as running handlers do
		return nil
	})
	select {
	case <-h.forced:
		t.Errorf("ended by force: %v", h.err)
	default:
	}
	if code != exitStopped {
		t.Errorf("exit code %d, want %d", code, exitStopped)
	}
}

func TestReadyAtEveryLevelAndOnce(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"debug", "info", "warn", "error"} {
		h := newHarness()
		h.main(func(_ context.Context, env *Env) error {
			if err := env.SetLog(level, "json"); err != nil {
				return err
			}
			env.Ready()
			env.Ready()
			return nil
		})
		if got := strings.Count(h.err.String(), `"msg":"ready"`); got != 1 {
			t.Errorf("level %s: %d ready lines, want 1", level, got)
		}
	}
}

func TestFirstLineSaysTheBuild(t *testing.T) {
	t.Parallel()
	h := newHarness()
	h.main(func(_ context.Context, env *Env) error { return env.SetLog("info", "json") })
	b := build.Read()
	first, _, _ := strings.Cut(h.err.String(), "\n")
	want := fmt.Sprintf(`"msg":"starting","version":%q,"revision":%q,"tz":%q}`, b.Version, b.Revision, b.TZ)
	if !strings.HasSuffix(first, want) {
		t.Errorf("the first line is %s, want it to end with %s", first, want)
	}
}

// A line that is logged within a span says of which trace it is; other lines have no such key.
func TestLogSaysItsTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	env := newEnv(Flags{}, &out, func(*slog.Logger) {})
	if err := env.SetLog("info", "json"); err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 7}, SpanID: trace.SpanID{7: 1}})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	log := env.Log().With(slog.String("queue", "default"))
	log.InfoContext(ctx, "within")
	log.InfoContext(t.Context(), "outside")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := `"queue":"default","trace_id":"00000000000000000000000000000007"}`; len(lines) != 3 || !strings.HasSuffix(lines[1], want) ||
		!strings.HasSuffix(lines[2], `"queue":"default"}`) {
		t.Errorf("logged %v, want the trace in the second line alone", lines)
	}
}

func TestSetLogRefuses(t *testing.T) {
	t.Parallel()
	env := newEnv(Flags{}, io.Discard, func(*slog.Logger) {})
	if env.SetLog("loud", "json") == nil || env.SetLog("info", "xml") == nil {
		t.Error("a wrong level or format passed")
	}
	if env.Log() == nil {
		t.Error("no logger before SetLog")
	}
}

// get asks without keeping the connection: an idle connection would delay the shutdown or outlive the test.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
