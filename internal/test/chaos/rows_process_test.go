package chaos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func processRows() []entry {
	return []entry{
		{n: 18, fault: "daemon down for 2 minutes while the index loses entries; two daemons, the leading one stopped, woken, killed", run: daemonDown},
		{n: 19, fault: "everything killed at once, servers and processes, and restarted in random order", run: everythingKilled},
		{n: 25, fault: "every process replaced by a new one, three times over", run: rollingRestart},
	}
}

const mend = 10 * time.Second // the daemon finds in this time what the index has lost

// daemonDown keeps the daemon away for two minutes: what is in the index fires on time without it. Then the index loses
// entries and a shard, and writers can't reach it for a moment: workers' looks find those tasks when they are due, the index
// lacks them until the daemon is back. Two daemons mend like one.
func daemonDown(t *testing.T, d *drill) {
	t.Helper()
	d.fault(t, "down", mend, func() {
		down, from := time.Now(), d.clock()
		pipelinetest.Must(t, d.daemon.Kill())
		time.Sleep(95 * time.Second)
		d.wantOnTime(t, "without a daemon", from, d.clock()-time.Second.Milliseconds())
		d.wantAnswered(t, "without a daemon", down)
		d.inRedis(t, func(r *redis.Client) error { return removeShard(t, r, 5) })
		d.loseWrites(t)
		d.loseEntries(t)
		soon := d.clock() + 3000 // due later than this, tasks are in the index if it is complete
		indexed := d.indexed(t, fmt.Sprint(soon), "+inf")
		if n := d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at >= ?`, soon); n <= indexed {
			t.Errorf("the index has %d of %d tasks, want some to be missing", indexed, n)
		}
		time.Sleep(time.Until(down.Add(2 * time.Minute)))
		d.start(t, d.daemon)
	})
	d.daemon.WaitReady(t)
	d.twoDaemons(t)
}

// loseEntries takes a tenth of the entries out of the index.
func (d *drill) loseEntries(t *testing.T) {
	t.Helper()
	d.inRedis(t, func(r *redis.Client) error { return removeSome(t, r, 10) })
}

// loseWrites keeps Redis silent for a moment, so that what the game writes goes to the compensation topic.
func (d *drill) loseWrites(t *testing.T) {
	t.Helper()
	pipelinetest.Must(t, d.redis.Freeze())
	time.Sleep(2 * time.Second)
	pipelinetest.Must(t, d.redis.Thaw())
}

// twoDaemons lets a second daemon wait behind the first, and has the leading one stopped past its session, woken beside
// its successor, and at last killed.
func (d *drill) twoDaemons(t *testing.T) {
	t.Helper()
	second := d.seat(t, "daemon", 4) // with the first one's link to Kafka
	d.restart(t, second)
	d.fault(t, "two", mend, func() { d.loseEntries(t) })

	leads, waits := d.daemon, second
	pipelinetest.Await(t, "a daemon to lead", func() bool { return leadsDaemons(leads) })
	epoch := d.epoch(t, "daemon")
	d.fault(t, "two, the leading one stopped", zkSession+mend, func() {
		pipelinetest.Must(t, leads.Freeze())
		d.loseEntries(t)
	})
	pipelinetest.Await(t, "the other daemon to lead", func() bool { return leadsDaemons(waits) })
	if after := d.epoch(t, "daemon"); after <= epoch {
		t.Errorf("the daemons' epoch is %d after %d", after, epoch)
	}
	d.fault(t, "woken", mend, func() {
		pipelinetest.Must(t, leads.Thaw())
		d.loseEntries(t)
	})
	pipelinetest.Await(t, "the woken daemon to stop", func() bool { return !leadsDaemons(leads) })
	d.fault(t, "two, the leading one killed", zkSession+mend, func() {
		pipelinetest.Must(t, waits.Kill())
		d.loseEntries(t)
	})
	pipelinetest.Await(t, "the first daemon to lead again", func() bool { return leadsDaemons(leads) })
}

// wantAnswered wants every call since then to have been answered, and none of them put off.
func (d *drill) wantAnswered(t *testing.T, name string, since time.Time) {
	t.Helper()
	calls, slowest := d.crowd.answers(since, time.Now())
	if calls[http.StatusOK] == 0 || calls[0]+calls[http.StatusServiceUnavailable] > 0 {
		t.Errorf("%s: calls by the status of their answers, 0 without one: %v", name, calls)
	}
	d.note(t, "%s: the slowest call was answered after %d ms", name, slowest.Milliseconds())
}

// leadsDaemons tells by its log whether the daemon believes to lead.
func leadsDaemons(s *seat) bool {
	return s.Says(`"msg":"leading"`) > s.Says(`"msg":"leading ended`)
}

// everythingKilled ends all processes and servers at once and starts them again in any order.
func everythingKilled(t *testing.T, d *drill) {
	t.Helper()
	var welcomed sync.WaitGroup
	d.fault(t, "all", 30*time.Second, func() {
		d.killEverything(t)
		d.note(t, "restarted in the order %s", d.startEverything(t, &welcomed))
	})
	for _, p := range d.all() {
		p.WaitReady(t)
	}
	welcomed.Wait()
	d.leader(t)
	restarted := d.clock()
	pipelinetest.Await(t, "all to go on as before", func() bool {
		return d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished' AND at_ms > ?`, restarted) > 2*d.setup.pets
	})
}

// killEverything sends all ends before it waits for any.
func (d *drill) killEverything(t *testing.T) {
	t.Helper()
	kills := []func() error{d.mysql.Kill, d.redis.Kill, d.zookeeper.Kill, d.kafka.Kill}
	for _, p := range d.all() {
		kills = append(kills, p.Kill)
	}
	errs := make([]error, len(kills))
	var all sync.WaitGroup
	for i, kill := range kills {
		all.Go(func() { errs[i] = kill() })
	}
	all.Wait()
	pipelinetest.Must(t, errors.Join(errs...))
}

// startEverything starts the servers, each until it answers, and the processes, which wait for their servers, in random
// order. welcomed is done when the players know where the game is.
func (d *drill) startEverything(t *testing.T, welcomed *sync.WaitGroup) (order string) {
	t.Helper()
	type start struct {
		name string
		do   func() error
	}
	starts := []start{
		{"MySQL", d.mysql.Start}, {"Redis", d.redis.Start}, {"ZooKeeper", d.zookeeper.Start}, {"Kafka", d.kafka.Start},
	}
	for _, p := range d.all() {
		starts = append(starts, start{p.Name, func() error { d.start(t, p); return nil }})
	}
	rand.Shuffle(len(starts), func(i, j int) { starts[i], starts[j] = starts[j], starts[i] })
	var names []string
	for _, s := range starts {
		pipelinetest.Must(t, s.do())
		if s.name == d.game.Name {
			welcomed.Go(func() { d.welcome(d.game.App) })
		}
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// welcome leads the players to a game as soon as it listens.
func (d *drill) welcome(game pipelinetest.App) {
	for ; game.Running() && !d.crowd.ended(); time.Sleep(5 * time.Millisecond) {
		for _, text := range game.Lines() {
			var l struct{ Msg, What, Addr string }
			if json.Unmarshal([]byte(text), &l) == nil && l.Msg == "listening" && l.What == "game" {
				url := "http://" + l.Addr
				d.crowd.game.Store(&url)
				return
			}
		}
	}
}

// rollingRestart replaces each process as a deployment does: the old one is told to end once the new one is ready.
func rollingRestart(t *testing.T, d *drill) {
	t.Helper()
	for round := 1; round <= 3; round++ {
		name := fmt.Sprint("round ", round)
		began, from := time.Now(), d.clock()
		d.fault(t, name, mend, func() {
			for _, s := range d.all() {
				d.replace(t, s)
			}
		})
		d.wantAnswered(t, name, began)
		lags := d.lagsWithin(t, from, d.clock())
		if worst := rank(lags, 100); len(lags) == 0 || worst > mend {
			t.Errorf("%s: of %d tasks one was late by %v, want at most %v", name, len(lags), worst, mend)
		}
		d.note(t, "%s: %d tasks came due meanwhile, lag at most %d ms", name, len(lags), rank(lags, 100).Milliseconds())
	}
	d.leader(t)
}

// replace starts a successor, and stops the process once the successor is ready. Before a game is stopped no more calls
// are sent to it for a while, as a load balancer does.
func (d *drill) replace(t *testing.T, s *seat) {
	t.Helper()
	const drain = time.Second
	old := s.App
	d.restart(t, s)
	if s == d.game {
		d.welcome(s.App)
		time.Sleep(drain)
	}
	old.Stop(t)
}
