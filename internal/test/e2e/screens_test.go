package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/terminaltest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// Kinds of the deployment whose screens are shown.
var (
	shownMeal = task.NewKind[int]("pet.meal_finished")
	shownMail = task.NewKind[int]("mail.reminder", task.Queue("mails"))
	shownPush = task.NewKind[int]("push.expiring")
)

// scene is a deployment at work, with a queue paused and tasks that died.
type scene struct {
	pipelinetest.Deployment
	*service

	folder string // has the file with the queues, for which there is no variable
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Deployment: pipelinetest.Deployment{
		DSN: pipelinetest.MySQL(t).NewSchema(t), Redis: pipelinetest.Redis(t).Addr(), ZooKeeper: pipelinetest.ZooKeeper(t).Addr(),
		Kafka: pipelinetest.Kafka(t).Addr(), Namespace: "pets", Rules: []string{"DUETIME_KAFKA__PARTITIONS=4"},
	}}
	s.folder = t.TempDir()
	pipelinetest.Must(t, os.Mkdir(filepath.Join(s.folder, "configs"), 0o755))
	pipelinetest.Must(t, os.WriteFile(s.config(), []byte("queues: [default, mails]\n"), 0o600))
	s.do(t, "migrate", "up")
	for _, name := range []string{"event", "daemon"} {
		pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/"+name), s.Env(), "--config", s.config()).WaitReady(t)
	}
	s.service = newService(t, s.Deployment, "mails")
	mux := worker.NewMux()
	for _, kind := range []task.Kind[int]{shownMeal, shownMail, shownPush} {
		worker.Handle(mux, kind, func(context.Context, *worker.Tx, worker.Task[int]) error { return nil })
	}
	s.work(t, mux)
	s.do(t, "pause", "mails", "--yes")
	return s
}

func (s *scene) config() string { return filepath.Join(s.folder, "configs", "duetime.yaml") }

func (s *scene) do(t *testing.T, args ...string) {
	t.Helper()
	if code, said := s.Duetime(t, append(args, "--config", s.config())...); code != 0 {
		t.Fatalf("%v: exit code %d, said %q", args, code, said)
	}
}

// schedule makes tasks of the kind at moments drawn between the two from now on.
func (s *scene) schedule(t *testing.T, kind task.Kind[int], n int, from, to time.Duration) {
	t.Helper()
	specs := make([]task.Spec, n)
	for i := range specs {
		specs[i] = kind.New(fmt.Sprint("player-", rand.N(60)), i, task.In(from+rand.N(to-from)))
	}
	pipelinetest.Must(t, s.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.ScheduleMany(t.Context(), specs)
		return err
	}))
}

// play schedules at a steady pace until the test ends.
func (s *scene) play(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			for range 5 + rand.N(20) {
				_, _ = s.Schedule(ctx, shownMeal.New(fmt.Sprint("player-", rand.N(60)), 1, task.In(rand.N(5*time.Second)))) // the last may be cut short
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// TestScreens shows the tool's screens on a terminal of 80×24, and makes the pictures in docs/screens where
// DUETIME_SCREENS names that folder: scripts/screens.
func TestScreens(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	s := newScene(t)
	for range 4 {
		s.schedule(t, shownMeal, 1000, time.Minute, 10*time.Hour)
		s.schedule(t, shownPush, 1000, time.Hour, 2*time.Hour)
	}
	s.schedule(t, shownMail, 14, 0, 30*time.Second)
	_, err := s.DB().ExecContext(t.Context(), `UPDATE duetime_tasks SET state = 3, version = version + 1, attempt = 25, run_at = created_at, due_at = created_at,
		finished_at = created_at, updated_at = created_at + 1, last_error = 'push gateway: 503 Service Unavailable' WHERE kind = 'push.expiring'`)
	pipelinetest.Must(t, err)
	s.play(t)

	top := s.shoot(t, nil, "top")
	for _, want := range []string{"duetime top", "fired", "LEADER", "16 of 16", "all whole", "mails", "paused for", "q ends"} {
		top.WaitText(t, want)
	}
	chart := regexp.MustCompile(`fired .*[▁-█]{6}`) // some frames
	pipelinetest.Await(t, "a chart", func() bool { return chart.MatchString(top.Text()) })
	s.picture(t, "top", top)
	top.Type(t, "q")
	top.ends(t)

	list := s.shoot(t, nil, "task", "list", "--state", "pending", "--limit", "20")
	list.ends(t)
	if n := strings.Count(list.Text(), " 0/25"); n != 20 {
		t.Errorf("%d lines of tasks, want 20 that are not wrapped; the screen:\n%s", n, list.Text())
	}
	s.picture(t, "task-list", list)

	bar := regexp.MustCompile(`retry +[3-7]\d% `)
	retry := s.shoot(t, bar.MatchString, "dead", "retry", "--kind", "push.expiring")
	retry.WaitText(t, "retry 4,000 dead tasks? [y/N]")
	retry.Type(t, "y\n")
	retry.WaitText(t, "retried 4000 tasks")
	retry.ends(t)
	if !retry.Kept() {
		t.Error("no bar was seen half way")
	}
	s.picture(t, "dead-retry", retry)

	rebuild := s.shoot(t, nil, "shard", "rebuild", "--all")
	rebuild.WaitText(t, "rebuild 16 shards? [y/N]")
	rebuild.Type(t, "y\n")
	rebuild.WaitText(t, "rebuilt 16 shards in")
	rebuild.ends(t)
	s.picture(t, "shard-rebuild", rebuild)
}

// shot is a run of the tool on a terminal.
type shot struct{ *terminaltest.Terminal }

func (s *scene) shoot(t *testing.T, keep func(string) bool, args ...string) shot {
	t.Helper()
	return shot{terminaltest.Run(t, s.folder, keep, pipelinetest.Build(t, "./cmd/duetime"), s.Env(), args...)}
}

func (x shot) ends(t *testing.T) {
	t.Helper()
	if code := x.Wait(t, time.Minute); code != 0 {
		t.Errorf("exit code %d; the screen:\n%s", code, x.Text())
	}
}

// picture draws a screen into the folder that the caller named.
func (s *scene) picture(t *testing.T, name string, x shot) {
	t.Helper()
	folder := os.Getenv("DUETIME_SCREENS")
	if folder == "" {
		return
	}
	pipelinetest.Must(t, os.MkdirAll(folder, 0o755))
	pipelinetest.Must(t, os.WriteFile(filepath.Join(folder, name+".svg"), []byte(x.SVG()), 0o644))
}
