package e2e_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// TestQueueIsAddedWhileAllRuns adds a queue, starts a worker for it, runs its tasks, and retires it. No other process is restarted, and
// the game goes on.
func TestQueueIsAddedWhileAllRuns(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	p := pipelinetest.SharedDeployment(t)
	db, err := sql.Open("mysql", p.DSN)
	pipelinetest.Must(t, err)
	defer func() { _ = db.Close() }()
	event, daemon := p.Ready(t, "event"), p.Ready(t, "daemon")
	meals, game := p.Ready(t, "worker"), p.Ready(t, "game", "DUETIME_GAME__MEAL=200ms")
	played := 0
	playOn := func(when string) {
		t.Helper()
		before := meals.Metric(t, `duetime_tasks_settled_total{kind="pet.meal_finished",result="done"}`)
		played++
		play(t, game.URL(t, "game"), fmt.Sprint("ann", played))
		pipelinetest.Await(t, when+": a meal to end", func() bool {
			return meals.Metric(t, `duetime_tasks_settled_total{kind="pet.meal_finished",result="done"}`) > before
		})
	}
	queue := func(want int, says string, args ...string) {
		t.Helper()
		code, out, complaint := p.Tool(t, append([]string{"queue"}, args...)...)
		if code != want || !strings.Contains(out+complaint, says) {
			t.Fatalf("queue %v: exit code %d, want %d; said %s%s, want %s", args, code, want, out, complaint, says)
		}
	}
	playOn("before")
	pusher := p
	pusher.Config = filepath.Join(t.TempDir(), "pusher.yaml")
	pusher.Rules = append(pusher.Rules, "SHOP_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "DUETIME_WORKER__QUEUES=push")
	pipelinetest.Must(t, os.WriteFile(pusher.Config, fmt.Appendf(nil, `
deliver:
  allow: [127.0.0.1/32]
  kinds:
    shop.order: {url: "http://%s/hook", queue: push, secrets_env: SHOP_SECRET, timeout: 1s}
`, e.addr), 0o600))
	early := pusher.Start(t, "worker")
	early.WaitLine(t, `\"push\" of kind shop.order is none of the configuration's: default; nor was it added`)

	queue(0, "push is added", "add", "push")
	w := pusher.Ready(t, "worker")
	ids := orders(t, db, 20, 25, func(string) {})
	pipelinetest.Await(t, "all orders to be done", func() bool { return count(t, db, ids, task.Done) == len(ids) })
	pipelinetest.Await(t, "the daemon to know it", func() bool {
		return strings.Contains(daemon.Metrics(t), `duetime_queue_paused{queue="push"} 0`)
	})
	playOn("with the queue")
	queue(1, "is used by 1 living process", "retire", "push")
	w.Stop(t)
	queue(0, "push is retired", "retire", "push")
	playOn("after")
	if n := event.Says("queue is not in the configuration"); n > 0 {
		t.Errorf("the event process did not know the queue %d times", n)
	}
	for _, app := range []pipelinetest.App{event, daemon, meals, game} {
		app.Stop(t)
	}
}
