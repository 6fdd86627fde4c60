package chaos_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func leaderRows() []entry {
	return []entry{
		{n: 0, fault: "none", run: func(_ *testing.T, d *drill) { time.Sleep(d.setup.meal) }},
		{n: 1, fault: "leader killed, idle and in the middle of a batch", run: leaderKilled},
		{
			n: 2, fault: "leader stopped past its session, between claim and publish, and between publish and acknowledgement; woken",
			setup: setup{linked: []string{"redis", "kafka"}}, run: leaderStopped,
		},
		{
			n: 3, fault: "ZooKeeper: one of three down, all down for 30 s, the leader killed while all are down",
			setup: setup{ensemble: true}, run: zooKeeperDown,
		},
		{n: 4, fault: "ZooKeeper's data wiped, also with the leader killed", run: zooKeeperWiped},
		{n: 5, fault: "the leader cut from ZooKeeper only", setup: setup{linked: []string{"zookeeper"}}, run: leaderWithoutZooKeeper},
	}
}

// leaderKilled kills the leader at any moment, then while tasks are due that it has not yet published.
func leaderKilled(t *testing.T, d *drill) {
	t.Helper()
	for _, what := range []string{"idle", "in a batch"} {
		leader, _ := d.leader(t)
		d.fault(t, what, zkSession+time.Second, func() {
			if what == "in a batch" {
				d.awaitBatch(t)
			}
			pipelinetest.Must(t, leader.Kill())
		})
		d.restart(t, leader)
	}
}

// awaitBatch waits for a moment in which tasks are just due.
func (d *drill) awaitBatch(t *testing.T) {
	t.Helper()
	pipelinetest.Await(t, "tasks to be just due", func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_tasks WHERE state = 0 AND run_at < UNIX_TIMESTAMP(NOW(3)) * 1000 + 20`) > 2
	})
}

// leaderStopped freezes a leader that owes something, lets another be elected, and wakes it: it goes on where it stood,
// and must be refused.
func leaderStopped(t *testing.T, d *drill) {
	t.Helper()
	for _, at := range []struct {
		name string
		owe  func(t *testing.T, d *drill, leader *seat)
	}{
		{"before publishing", oweHints},
		{"before acknowledging", oweAcks},
	} {
		leader, next := d.settled(t)
		began, epoch, fenced := d.topicEnds(t), d.epoch(t, "event"), fencings(t, leader)
		d.fault(t, "stopped "+at.name, zkSession+time.Second, func() {
			at.owe(t, d, leader)
			pipelinetest.Must(t, leader.Freeze())
		})
		d.wantSuccessor(t, next, epoch)
		woken := d.topicEnds(t)
		d.fault(t, "woken "+at.name, zkSession+time.Second, func() {
			for _, link := range leader.links.all() {
				link.Heal()
			}
			pipelinetest.Must(t, leader.Thaw())
		})
		d.wantNoZombies(t, began, epoch)
		pipelinetest.Await(t, "the woken leader to be fenced", func() bool { return fencings(t, leader) > fenced })
		d.note(t, "stopped %s: once awake it published %d hints that it had claimed before", at.name, ofEpoch(d.hintsSince(t, woken), epoch))
	}
}

// oweHints returns when the leader has claimed entries whose hints can't leave it: they came due after its way to Kafka
// was cut.
func oweHints(t *testing.T, d *drill, leader *seat) {
	t.Helper()
	leader.links.kafka.CutUpstream()
	cut := d.clock() + leadMost.Milliseconds()
	pipelinetest.Await(t, "claimed entries", func() bool { return d.claimedSince(t, cut) > 5 })
}

// claimedSince counts the entries that stand claimed in the due sets and came due after a moment.
func (w *world) claimedSince(t *testing.T, ms int64) int {
	t.Helper()
	claimed := 0
	w.inRedis(t, func(r *redis.Client) error {
		horizons, err := r.Keys(t.Context(), "duetime:{*}:claimed").Result()
		for _, key := range horizons {
			horizon, err := r.Get(t.Context(), key).Result() // a score: up to here the shard was claimed
			if err != nil {
				return err
			}
			due := strings.TrimSuffix(key, "claimed") + "due"
			n, err := r.ZCount(t.Context(), due, fmt.Sprint("(", ms), horizon).Result()
			if err != nil {
				return err
			}
			claimed += int(n)
		}
		return err
	})
	return claimed
}

// oweAcks returns when Kafka has answered for hints whose acknowledgement can't reach Redis: the answers came after the
// way there was cut. They are slow, so that the cut meets hints under way.
func oweAcks(t *testing.T, d *drill, leader *seat) {
	t.Helper()
	leader.links.kafka.Latency(300 * time.Millisecond)
	slow := d.clock() + leadMost.Milliseconds()
	pipelinetest.Await(t, "hints under way", func() bool { return d.claimedSince(t, slow) > 5 })
	leader.links.redis.CutUpstream()
	before := leader.Metric(t, published)
	pipelinetest.Await(t, "Kafka's answer for them", func() bool { return leader.Metric(t, published) > before })
}

// published is the metric of the hints that Kafka has acknowledged to a leader.
const published = "duetime_hints_published_total "

// fencings counts how often the process was refused for an older epoch: by Redis, or by the counter in MySQL.
func fencings(t *testing.T, s *seat) int {
	t.Helper()
	return int(s.Metric(t, "duetime_fenced_total ")) + s.Says(`"state":"fenced"`)
}

// epoch is the newest term's of a name.
func (w *world) epoch(t *testing.T, name string) int64 {
	t.Helper()
	return int64(w.count(t, `SELECT epoch FROM duetime_epochs WHERE name = ?`, name))
}

// settled waits until one event process leads and the election has been at rest for a while: who has lost its place leads
// on until its successor's first word.
func (d *drill) settled(t *testing.T) (leads, waits *seat) {
	t.Helper()
	rest, last := time.Now(), ""
	pipelinetest.Await(t, "the election to be at rest", func() bool {
		leads, waits = d.leader(t)
		now := fmt.Sprint(leads.Pid(), d.epoch(t, "event"))
		if now != last || waits.Leads(t) {
			rest, last = time.Now(), now
		}
		return time.Since(rest) > 2*time.Second
	})
	return leads, waits
}

// wantNoGap wants that tasks came due between two moments, and that none of them had to wait for somebody to fire it. It
// returns how late they were, sorted.
func (d *drill) wantNoGap(t *testing.T, name string, from, to int64) []time.Duration {
	t.Helper()
	lags := d.lagsWithin(t, from, to)
	if len(lags) < int(to-from)/100 {
		t.Errorf("%s: only %d tasks came due within %d ms", name, len(lags), to-from)
	}
	if worst := rank(lags, 100); worst > time.Second+d.slack {
		t.Errorf("%s: of %d tasks one was late by %v, want at most 1s", name, len(lags), worst)
	}
	d.note(t, "%s: %d tasks came due meanwhile, lag p99 %d ms, at most %d ms", name, len(lags), rank(lags, 99).Milliseconds(), rank(lags, 100).Milliseconds())
	return lags
}

// wantOnTime wants moreover that not one of a hundred was felt to be late.
func (d *drill) wantOnTime(t *testing.T, name string, from, to int64) {
	t.Helper()
	if p99 := rank(d.wantNoGap(t, name, from, to), 99); p99 > late+d.slack {
		t.Errorf("%s: one of a hundred tasks was late by %v, want at most %v", name, p99, late)
	}
}

// lagsWithin sorts the lags of the tasks that came due between two moments and took effect.
func (d *drill) lagsWithin(t *testing.T, from, to int64) []time.Duration {
	t.Helper()
	lines, err := readLines(t.Context(), d.db, from)
	pipelinetest.Must(t, err)
	made := map[string]int64{}
	var lags []time.Duration
	for _, l := range lines {
		switch l.event {
		case fed, "auto_fed":
			made[l.task] = l.at
		case "meal_finished":
			if due := max(l.due, made[l.task]); from <= due && due < to {
				lags = append(lags, time.Duration(l.at-due)*time.Millisecond)
			}
		}
	}
	slices.Sort(lags)
	return lags
}

// zooKeeperDown takes ZooKeeper away, in part and whole: it only says who polls, so nobody must notice until the leader
// is gone too.
func zooKeeperDown(t *testing.T, d *drill) {
	t.Helper()
	firing := func(name string, inject func()) {
		from := d.clock()
		d.fault(t, name, time.Second, inject)
		d.wantOnTime(t, name, from, d.clock())
	}
	firing("one of three", func() {
		node, err := d.ensemble.Leader()
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, node.Kill())
		time.Sleep(10 * time.Second)
		pipelinetest.Must(t, node.Start())
	})
	back := d.heard(t, reconnected)
	firing("all", func() {
		d.killEnsemble(t)
		time.Sleep(30 * time.Second)
		pipelinetest.Must(t, d.ensemble.Start())
	})
	back("all to be connected again")
	leader, next := d.settled(t)
	epoch := d.epoch(t, "event")
	d.fault(t, "all, the leader killed", zkSession+time.Second, func() {
		d.killEnsemble(t)
		pipelinetest.Must(t, leader.Kill())
		time.Sleep(time.Second) // the bound is the election's: what comes due meanwhile is to be caught up with inside it
		pipelinetest.Must(t, d.ensemble.Start())
	})
	d.wantSuccessor(t, next, epoch)
	d.restart(t, leader)
}

// What those who stand for election log when ZooKeeper answers again: with the old session or a new one, or a new one.
const (
	reconnected = `"state":"StateHasSession"`
	newSession  = `"msg":"zookeeper session established"`
)

// heard notes who has logged what how often, and gives a wait until each who stands for election has logged it once more.
func (d *drill) heard(t *testing.T, text string) (wait func(what string)) {
	t.Helper()
	all := append([]*seat{d.daemon}, d.events...)
	before := map[*seat]int{}
	for _, s := range all {
		before[s] = s.Says(text)
	}
	return func(what string) {
		t.Helper()
		pipelinetest.Await(t, what, func() bool {
			return !slices.ContainsFunc(all, func(s *seat) bool { return s.Says(text) <= before[s] })
		})
	}
}

func (d *drill) killEnsemble(t *testing.T) {
	t.Helper()
	for _, node := range d.ensemble.Nodes {
		pipelinetest.Must(t, node.Kill())
	}
}

// wantSuccessor wants that the seat leads soon, under a higher epoch. Tasks don't tell: workers fire them on time meanwhile.
func (d *drill) wantSuccessor(t *testing.T, next *seat, before int64) {
	t.Helper()
	began := time.Now()
	pipelinetest.Await(t, "a successor to lead", func() bool { return next.Leads(t) && d.epoch(t, "event") > before })
	if took, within := time.Since(began), zkSession+time.Second+d.slack; took > within {
		t.Errorf("a successor leads after %v, want within %v", took, within)
	}
}

// zooKeeperWiped empties ZooKeeper. The leader leads on; the next one's epoch is higher although nothing there is left
// that could tell it.
func zooKeeperWiped(t *testing.T, d *drill) {
	t.Helper()
	const within = 10 * time.Second
	from, back := d.clock(), d.heard(t, newSession)
	var answers time.Time
	d.fault(t, "wiped", within, func() {
		pipelinetest.Must(t, d.zookeeper.Wipe())
		answers = time.Now()
	})
	d.wantNoGap(t, "wiped", from, d.clock())
	back("all to stand for election again")
	if took := time.Since(answers); took > within+d.slack {
		t.Errorf("all stand for election again after %v, want within %v", took, within)
	}
	leader, next := d.settled(t)
	epoch := d.epoch(t, "event")
	d.fault(t, "wiped, the leader killed", within, func() {
		pipelinetest.Must(t, leader.Kill())
		pipelinetest.Must(t, d.zookeeper.Wipe())
	})
	d.wantSuccessor(t, next, epoch)
	d.restart(t, leader)
}

// leaderWithoutZooKeeper cuts the leader off from those who elect: it leads on until its successor's epoch fences it.
func leaderWithoutZooKeeper(t *testing.T, d *drill) {
	t.Helper()
	leader, next := d.settled(t)
	began, from := d.topicEnds(t), d.clock()
	epoch, fenced := d.epoch(t, "event"), fencings(t, leader)
	d.fault(t, "cut", zkSession+time.Second, func() {
		leader.links.zookeeper.Cut()
		cut := time.Now()
		pipelinetest.Await(t, "a successor", func() bool { return next.Leads(t) })
		if took := time.Since(cut); took > zkSession+time.Second+d.slack {
			t.Errorf("a successor leads after %v, want within %v", took, zkSession+time.Second)
		}
		pipelinetest.Await(t, "the old leader to be fenced", func() bool { return fencings(t, leader) > fenced })
		leader.links.zookeeper.Heal()
	})
	d.wantNoGap(t, "cut", from, d.clock())
	d.wantSuccessor(t, next, epoch)
	d.wantNoZombies(t, began, epoch)
}
