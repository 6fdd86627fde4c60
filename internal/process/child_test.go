package process

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/wait"
)

// child is a real process around Main. The tests below start it from this test binary.
func child(mode string) int {
	os.Args = os.Args[:1]
	return Main("child", "none.yaml", func(ctx context.Context, env *Env) error {
		if err := env.SetLog("info", "json"); err != nil {
			return err
		}
		slog.Info("wired") // written by the configured logger
		switch mode {
		case "wait":
			return wait.For(ctx, env.Log(), "mysql", func(context.Context) error { return errors.New("away") })
		case "garbage":
			slog.Info("set", "percent", debug.SetGCPercent(-1))
		case "hang":
			env.OnStop("kafka", func(context.Context) error { select {} })
			env.Ready()
			<-ctx.Done()
			return nil
		}
		env.Ready()
		<-ctx.Done()
		return nil
	})
}

// stopChild starts a child, signals it when it has logged the line, and returns its exit code and the time that it took
// to end.
func stopChild(t *testing.T, mode, line string, signals ...os.Signal) (code int, took time.Duration, said string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), "PROCESS_TEST_CHILD="+mode)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var start time.Time
	var all strings.Builder
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		all.WriteString(scanner.Text() + "\n")
		if len(signals) > 0 && (strings.Contains(scanner.Text(), line) || !start.IsZero()) {
			start = time.Now()
			if err := cmd.Process.Signal(signals[0]); err != nil {
				t.Error(err)
			}
			signals = signals[1:]
		}
	}
	_ = cmd.Wait() // the exit code tells the rest
	return cmd.ProcessState.ExitCode(), time.Since(start), all.String()
}

func TestSigtermEndsAProcessThatWaits(t *testing.T) {
	t.Parallel()
	code, took, said := stopChild(t, "wait", `"msg":"waiting"`, syscall.SIGTERM)
	if code != 0 || took > 5*time.Second || strings.Contains(said, `"msg":"ready"`) {
		t.Errorf("code %d after %v: %s", code, took, said)
	}
}

func TestSignalsEndAProcessThatWorks(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		code, took, said := stopChild(t, "work", `"msg":"ready"`, s)
		if code != 0 || took > 5*time.Second || strings.Count(said, `"msg":"ready"`) != 1 {
			t.Errorf("%v: code %d after %v: %s", s, code, took, said)
		}
		if !strings.Contains(said, `"level":"INFO","msg":"wired"`) {
			t.Errorf("the default logger was not taken over: %s", said)
		}
	}
}

func TestSecondSigtermEndsAProcessThatHangs(t *testing.T) {
	t.Parallel()
	// The second signal is sent once the child has logged the first.
	code, took, said := stopChild(t, "hang", `"msg":"ready"`, syscall.SIGTERM, syscall.SIGTERM)
	if code != 1 || took > 5*time.Second || !strings.Contains(said, "open: kafka") {
		t.Errorf("code %d after %v: %s", code, took, said)
	}
}

func TestTheEnvironmentSaysHowOftenGarbageIsCollected(t *testing.T) {
	for gogc, want := range map[string]string{"": `"percent":200}`, "50": `"percent":50}`, "off": `"percent":-1}`} {
		t.Setenv("GOGC", gogc)
		if _, _, said := stopChild(t, "garbage", `"msg":"ready"`, syscall.SIGTERM); !strings.Contains(said, want) {
			t.Errorf("GOGC=%q: %s, want %s", gogc, said, want)
		}
	}
}
