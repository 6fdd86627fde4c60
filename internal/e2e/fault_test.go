package e2e_test

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/pipelinetest"
)

const (
	late  = 250 * time.Millisecond // a task this long past its time shows that a fault is felt
	quiet = 2 * time.Second        // without a late task, after which a fault counts as healed
	lead  = 50 * time.Millisecond  // event.lead: a hint may be out this long ahead
	slack = 10 * time.Second       // beyond what is wanted, on a machine that is busy with something else
)

// drill breaks a world while it is played in, and remembers when.
type drill struct {
	*world
	crowd   *crowd
	windows []window
}

// TestFaults breaks one thing after the other while the game goes on: tasks may be late, and nothing else. It measures
// time, so it is alone.
func TestFaults(t *testing.T) {
	d := &drill{world: newWorld(t)}
	d.crowd = newCrowd(d.sizes, d.game.url(t, "game"))
	d.crowd.adopt()
	d.crowd.play()
	pipelinetest.Await(t, "meals to end", func() bool {
		var n int
		pipelinetest.Must(t, d.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM duetime_tasks WHERE state = 1`).Scan(&n))
		return n > d.sizes.pets/4
	})
	d.leaderKilled(t)
	d.leaderStopped(t)
	d.workerKilled(t)
	d.redisFlushed(t)
	d.redisAway(t)
	d.replaced(t)
	d.sessionRefused(t)
	d.crowd.end()
	d.settle(t)
	d.wantClean(t)
	meals := d.check(t, d.crowd)
	d.stragglers(t, meals)
	all := lags(meals, d.windows...)
	report(t, "%d meals, %d took effect; lag outside of the faults p50 %v, p99 %v, max %v",
		len(meals), len(lags(meals)), rank(all, 50), rank(all, 99), rank(all, 100))
}

func (d *drill) leaderKilled(t *testing.T) {
	t.Helper()
	i := d.leader(t)
	d.fault(t, "kill -9 of the leading event process", 7*time.Second, func() time.Time {
		from := d.now(t)
		pipelinetest.Must(t, d.events[i].Kill())
		return from
	})
	d.events[i] = d.ready(t, "event")
}

func (d *drill) leaderStopped(t *testing.T) {
	t.Helper()
	i := d.leader(t)
	d.fault(t, "SIGTERM of the leading event process", 300*time.Millisecond, func() time.Time {
		from := d.now(t)
		report(t, "the leading event process ended after %v", d.events[i].stop(t).Round(time.Millisecond))
		return from
	})
	d.events[i] = d.ready(t, "event")
}

func (d *drill) workerKilled(t *testing.T) {
	t.Helper()
	d.fault(t, "kill -9 of a worker", 8*time.Second, func() time.Time {
		from := d.now(t)
		pipelinetest.Must(t, d.workers[0].Kill())
		return from
	})
	d.fault(t, "a worker joins", 8*time.Second, func() time.Time {
		from := d.now(t)
		d.workers[0] = d.ready(t, "worker")
		return from
	})
}

func (d *drill) redisFlushed(t *testing.T) {
	t.Helper()
	d.fault(t, "FLUSHALL", 10*time.Second, func() time.Time {
		client := redis.NewClient(&redis.Options{Addr: d.redis.Addr()})
		defer func() { _ = client.Close() }()
		from := d.now(t)
		pipelinetest.Must(t, client.FlushAll(t.Context()).Err())
		for code := -1; code != 0; {
			var v verified
			code, v = d.verify(t)
			took := d.now(t).Sub(from)
			report(t, "%v after FLUSHALL verify exits %d: %+v", took, code, v)
			if took > 10*time.Second+slack {
				t.Error("verify is not clean again")
				break
			}
		}
		return from
	})
}

func (d *drill) redisAway(t *testing.T) {
	t.Helper()
	down, from := time.Now(), d.now(t)
	pipelinetest.Must(t, d.redis.Kill())
	time.Sleep(5 * time.Second) // the length of the outage
	var list struct {
		Source string `json:"source"`
	}
	if status := d.crowd.get("/v1/owners/player-0/tasks", &list); status != http.StatusOK || list.Source != "db" {
		t.Errorf("the owner's tasks without Redis: %d from %q, want 200 from db", status, list.Source)
	}
	byStatus, slowest := d.crowd.answers(down, time.Now())
	report(t, "without Redis: answers by status %v, the slowest after %v", byStatus, slowest.Round(time.Millisecond))
	for status := range maps.Keys(byStatus) {
		if status != http.StatusOK && status != http.StatusCreated && status != http.StatusConflict {
			t.Errorf("%d answers with status %d without Redis", byStatus[status], status)
		}
	}
	if slowest > 2*time.Second {
		t.Errorf("an answer took %v without Redis, want at most 1s", slowest)
	}
	d.fault(t, "Redis back, empty", 10*time.Second, func() time.Time {
		pipelinetest.Must(t, d.redis.Start())
		return d.now(t)
	})
	d.windows[len(d.windows)-1].from = from.Add(-lead) // the outage itself belongs to it
}

// replaced stops each process as a deployment does, after its successor is ready.
func (d *drill) replaced(t *testing.T) {
	t.Helper()
	for _, p := range []*process{&d.workers[0], &d.workers[1], &d.daemon, &d.game, &d.events[0], &d.events[1]} {
		next := d.ready(t, p.name)
		if p.name == "game" {
			url := next.url(t, "game")
			d.crowd.url.Store(&url)
		}
		d.fault(t, "SIGTERM of "+p.name+" under load", 10*time.Second, func() time.Time {
			from := d.now(t)
			report(t, "%s ended after %v", p.name, p.stop(t).Round(time.Millisecond))
			return from
		})
		*p = next
	}
}

// sessionRefused starts a worker whose session is shorter than the broker allows.
func (d *drill) sessionRefused(t *testing.T) {
	t.Helper()
	short := d.start(t, "worker", "DUETIME_KAFKA__SESSION_TIMEOUT=2s")
	if code := short.Wait(t, time.Minute); code != 1 {
		t.Errorf("a session that the broker refuses: exit code %d, want 1", code)
	}
	short.wantOneComplaint(t, []string{"kafka.session_timeout"})
}

// fault breaks something, waits until no task is late any more, and prints how long that took by the journal. breaking
// returns the moment from which to count, on the database's clock.
func (d *drill) fault(t *testing.T, name string, within time.Duration, breaking func() time.Time) {
	t.Helper()
	from := breaking()
	d.becomeQuiet(t)
	meals, _ := d.read(t).judge()
	healed, first, worst := healing(meals, from)
	d.windows = append(d.windows, window{name, from.Add(-lead), healed})
	report(t, "%s: healed after %v, first effect claimed since after %v, worst lag %v (wanted within %v)",
		name, healed.Sub(from), first, worst, within)
	if took := healed.Sub(from); took > within+slack {
		t.Errorf("%s: healed after %v, want within %v", name, took, within)
	}
}

// stragglers prints what was late though no fault was on.
func (d *drill) stragglers(t *testing.T, meals map[string]*meal) {
	t.Helper()
	for id, m := range meals {
		if m.at.IsZero() || m.lag() < time.Second || slices.ContainsFunc(d.windows, func(w window) bool { return w.has(m.due) }) {
			continue
		}
		before := window{name: "no fault"}
		for _, w := range d.windows {
			if w.from.Before(m.due) {
				before = w
			}
		}
		report(t, "task %s was late by %v, %v after the window of %s", id, m.lag(), m.due.Sub(before.to), before.name)
	}
}

// becomeQuiet waits until no task was late for a while.
func (d *drill) becomeQuiet(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	since := time.Now()
	pipelinetest.Await(t, "the tasks to be in time again", func() bool {
		n, err := d.overdue(ctx, late)
		pipelinetest.Must(t, err)
		if n > 0 {
			since = time.Now()
		}
		return time.Since(since) > quiet
	})
}

// healing walks through the meals due from the fault on. It returns the end of the last late one before a second without
// any; how long after the fault the first effect came of a task whose hint can't have been out before; and the worst lag.
func healing(meals map[string]*meal, from time.Time) (healed time.Time, first, worst time.Duration) {
	due := slices.SortedFunc(maps.Values(meals), func(a, b *meal) int { return a.due.Compare(b.due) })
	healed, first = from, -1
	for _, m := range due {
		if m.at.IsZero() || m.at.Before(from) {
			continue
		}
		if m.due.After(healed.Add(time.Second)) {
			break
		}
		if m.lag() > late && m.at.After(healed) {
			healed = m.at
		}
		worst = max(worst, m.lag())
		if took := m.at.Sub(from); m.due.After(from.Add(lead)) && (first < 0 || cmp.Less(took, first)) {
			first = took
		}
	}
	return healed, first, worst
}
