package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/command"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/internal/process"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

// refused is an error that retrying cannot fix.
type refused struct{}

func (refused) Error() string   { return "refused for good" }
func (refused) Permanent() bool { return true }

// TestStand runs an elected process, on real servers, in this one: TestMain finds what it leaves behind. It uses this
// process's signals and command line, so its cases are not parallel.
func TestStand(t *testing.T) {
	for _, c := range []struct {
		name string
		lead func(ctx context.Context, term *elect.Term, stop func() error) error
		code int
	}{
		{"stopped while it leads", func(ctx context.Context, term *elect.Term, stop func() error) error {
			term.Progress()
			if err := stop(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}, 0},
		{"stopped while it stands again", func(_ context.Context, _ *elect.Term, stop func() error) error {
			return errors.Join(errors.New("fell over"), stop())
		}, 0},
		{"refused for good", func(context.Context, *elect.Term, func() error) error { return fmt.Errorf("lead: %w", refused{}) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Args = []string{"event", "--config", configured(t)}
			var led atomic.Bool
			stop := sync.OnceValue(func() error { return syscall.Kill(os.Getpid(), syscall.SIGTERM) }) // a second signal would end the test
			ended := make(chan int, 1)
			go func() {
				ended <- process.Main("event", config.DefaultPath, func(ctx context.Context, env *process.Env) error {
					return stand(ctx, env, command.Candidate{Name: "event", Lead: func(ctx context.Context, term *elect.Term) error {
						led.Store(true)
						return c.lead(ctx, term, stop)
					}})
				})
			}()
			select {
			case code := <-ended:
				if code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
			case <-time.After(time.Minute):
				t.Fatal("not ended within a minute")
			}
			if !led.Load() {
				t.Error("has never led")
			}
		})
	}
}

// stand does what the main functions of event and daemon do.
func stand(ctx context.Context, env *process.Env, c command.Candidate) error {
	cfg, err := command.Configure(ctx, env, func(c config.Config) string { return c.Event.Admin })
	if err != nil {
		return err
	}
	p, err := parts.Open(cfg, env.Log(), env.Registry, store.Options{})
	if err != nil {
		return err
	}
	env.OnStop("servers", p.Close)
	if err := p.Store.Migrate(ctx, migrations.Files, cfg.Namespace, cfg.Shards); err != nil {
		return err
	}
	return command.Stand(ctx, env, p, c)
}

func configured(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duetime.yaml")
	text := fmt.Sprintf("namespace: %s\nmysql: {dsn: %q}\nredis: {addrs: [%q]}\nzookeeper: {servers: [%q]}\nevent: {admin: 0}\n",
		pipelinetest.Namespace(t), pipelinetest.MySQL(t).NewSchema(t), pipelinetest.Redis(t).Addr(), pipelinetest.ZooKeeper(t).Addr())
	pipelinetest.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
