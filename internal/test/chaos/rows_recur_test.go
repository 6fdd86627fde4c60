package chaos_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// recurrencesRow plays all faults in turn for two minutes, or for as long as DUETIME_CHAOS_LONG=1h says. The clock of one
// worker's host is wrong all the while.
func recurrencesRow() entry {
	return entry{
		n: 79, fault: "200 recurrences of a second to a minute while leader, worker, daemon, MySQL and Redis are killed; one worker's clock 30 s ahead", alone: true,
		setup: setup{worker: "./internal/test/chaos/poison", ahead: 30}, run: recurrencesGoOn,
	}
}

const (
	recurrences = 200
	playedFor   = 2 * time.Minute
	behindAfter = 90 * time.Second // the longest interval, and time to heal
)

// tick is the payload of the handler chaos.tick: how long it snoozes.
type tick struct {
	TakesMs int64 `json:"takes_ms"`
}

var ticking = task.NewKind[tick]("chaos.tick", task.Retry(task.Backoff{Min: 100 * time.Millisecond, Max: time.Second}))

func recurrencesGoOn(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, `CREATE TABLE chaos_ticks (task_id CHAR(36) NOT NULL) ENGINE=InnoDB`)
	s, err := store.Open(d.DSN, store.Options{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	began := time.Now()
	d.plantRecurrences(t, s)
	long, err := time.ParseDuration(os.Getenv("DUETIME_CHAOS_LONG"))
	if err != nil && os.Getenv("DUETIME_CHAOS_LONG") != "" {
		t.Fatal(err)
	}
	for time.Since(began) < max(long, playedFor) {
		d.killInTurn(t)
	}
	d.await(t, "no recurrence to be behind", 3*time.Minute, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM duetime_recurrences WHERE due_at < UNIX_TIMESTAMP(NOW(3)) * 1000 - 5000`) == 0
	})
	judgeTicks(t, d, s)
}

// plantRecurrences makes recurrences with all policies. A part of their ticks goes on beyond the next one.
func (d *drill) plantRecurrences(t *testing.T, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	tx, err := s.Begin(ctx)
	pipelinetest.Must(t, err)
	changes := schedule.NewTx(tx, s)
	for i := range recurrences {
		when := recur.Every(time.Duration(1+i*59/(recurrences-1)) * time.Second)
		if i%4 == 3 {
			when = recur.Cron(fmt.Sprintf("*/%d * * * * *", 1+i%30), "Europe/Berlin")
		}
		policy := recur.Policy{
			CatchUp: []recur.CatchUp{recur.CatchUpLast, recur.CatchUpSkip, recur.CatchUpAll(1000)}[i%3],
			Overlap: []recur.Overlap{recur.OverlapSkip, recur.OverlapBufferOne, recur.OverlapAllow}[i/3%3],
		}
		if i%10 == 9 {
			policy.Jitter = 500 * time.Millisecond
		}
		payload := tick{}
		if i%8 == 1 {
			payload.TakesMs = 1500
		}
		_, err := changes.Recur(ctx, fmt.Sprintf("r%d", i), when, ticking.Recurring(fmt.Sprintf("ticker-%d", i%50), payload), policy)
		pipelinetest.Must(t, err)
	}
	pipelinetest.Must(t, tx.Commit())
}

// killInTurn kills each part once, and leaves it away for a while.
func (d *drill) killInTurn(t *testing.T) {
	t.Helper()
	const away = 5 * time.Second
	for _, part := range []struct {
		name   string
		within time.Duration
		kill   func() (start func())
	}{
		{"leader killed", 10 * time.Second, func() func() {
			leader, _ := d.leader(t)
			pipelinetest.Must(t, leader.Kill())
			return func() { d.restart(t, leader) }
		}},
		{"worker killed", 10 * time.Second, func() func() {
			pipelinetest.Must(t, d.workers[0].Kill())
			return func() { d.restart(t, d.workers[0]) }
		}},
		{"daemon killed", 15 * time.Second, func() func() {
			pipelinetest.Must(t, d.daemon.Kill())
			return func() { d.restart(t, d.daemon) }
		}},
		{"MySQL killed", 15 * time.Second, func() func() {
			pipelinetest.Must(t, d.mysql.Kill())
			return func() { pipelinetest.Must(t, d.mysql.Start()) }
		}},
		{"Redis flushed and killed", 15 * time.Second, func() func() {
			d.inRedis(t, func(r *redis.Client) error { return r.FlushAll(t.Context()).Err() })
			pipelinetest.Must(t, d.redis.Kill())
			return func() { pipelinetest.Must(t, d.redis.Start()) }
		}},
	} {
		d.fault(t, part.name, part.within, func() {
			start := part.kill()
			time.Sleep(away)
			start()
		})
	}
}

// judgeTicks holds each recurrence to its timetable, as one moment shows it: each tick that has passed has one task, or was
// skipped by the policy, and each task that is done has one effect.
func judgeTicks(t *testing.T, d *drill, s *store.Store) {
	t.Helper()
	tx, err := s.DB().BeginTxx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	now, err := s.Now(t.Context(), tx) // it begins the snapshot
	pipelinetest.Must(t, err)
	effects := countEffects(t, tx)
	made, skipped, caughtUp, doubled := 0, int64(0), int64(0), 0
	for i := range recurrences {
		owner, name := fmt.Sprintf("ticker-%d", i%50), fmt.Sprintf("r%d", i)
		r, found, err := s.Recurrence(t.Context(), tx, owner, name)
		if err != nil || !found {
			t.Fatalf("%s of %s: found %v, %v", name, owner, found, err)
		}
		tasks := tasksOf(t, tx, s, r)
		made, skipped, caughtUp = made+len(tasks), skipped+r.Skipped, caughtUp+r.CaughtUp
		doubled += judgeRecurrence(t, r, tasks, effects, now)
	}
	d.note(t, "%d recurrences: %d tasks made, %d of them after their tick had passed, %d ticks skipped by policy, %d effects beyond one",
		recurrences, made, caughtUp, skipped, doubled)
	if made < 5*recurrences {
		t.Errorf("only %d tasks were made", made)
	}
}

func countEffects(t *testing.T, tx *sqlx.Tx) map[string]int {
	t.Helper()
	var ids []string
	pipelinetest.Must(t, tx.SelectContext(t.Context(), &ids, `SELECT task_id FROM chaos_ticks`))
	effects := map[string]int{}
	for _, id := range ids {
		effects[id]++
	}
	return effects
}

// tasksOf reads the tasks that the recurrence has made.
func tasksOf(t *testing.T, tx *sqlx.Tx, s *store.Store, r task.Recurrence) []task.Task {
	t.Helper()
	var ids [][]byte
	key := transition.ExtraTask(r, time.UnixMilli(0)).DedupKey // up to the tick, all its tasks' keys are alike
	err := tx.SelectContext(t.Context(), &ids, `SELECT id FROM duetime_tasks WHERE owner = ? AND kind = 'chaos.tick' AND dedup_key LIKE ?`,
		r.Owner, key[:len(key)-1]+"%")
	pipelinetest.Must(t, err)
	var tasks []task.Task
	for part := range slices.Chunk(ids, task.MaxPerCall) {
		wanted := make([]task.ID, len(part))
		for i, id := range part {
			copy(wanted[i][:], id)
		}
		rows, err := s.Get(context.WithoutCancel(t.Context()), tx, wanted)
		pipelinetest.Must(t, err)
		tasks = append(tasks, rows...)
	}
	return tasks
}

// judgeRecurrence returns how many effects there are beyond one for each task.
func judgeRecurrence(t *testing.T, r task.Recurrence, tasks []task.Task, effects map[string]int, now time.Time) (doubled int) {
	t.Helper()
	taken, passed := map[int64]bool{}, map[int64]bool{}
	for at := r.Timetable.Next(r.CreatedAt); !at.IsZero() && !at.After(r.Passed); at = r.Timetable.Next(at) {
		passed[at.UnixMilli()] = true
	}
	for _, one := range tasks {
		_, at, _ := one.Tick()
		if !passed[at.UnixMilli()] || taken[at.UnixMilli()] {
			t.Errorf("%s: a task of the tick %v, which is none or has another one", r.Name, at)
		}
		taken[at.UnixMilli()] = true
		n := effects[one.ID.String()]
		doubled += max(0, n-1)
		if (one.State == task.Done) != (n == 1) {
			t.Errorf("%s: task %s of the tick %v is %v, with %d effects", r.Name, one.ID, at, one.State, n)
		}
		if one.State == task.Pending && one.ID != r.Newest && r.Policy.Overlap != recur.OverlapAllow {
			t.Errorf("%s: task %s is pending beside the newest one", r.Name, one.ID)
		}
	}
	if int64(len(passed)) != int64(len(tasks))+r.Skipped || int64(len(tasks)) != r.Made {
		t.Errorf("%s (%v, %+v): of %d ticks %d have tasks and %d were skipped; %d tasks were counted",
			r.Name, r.Timetable, r.Policy, len(passed), len(tasks), r.Skipped, r.Made)
	}
	if r.State != task.RecurrenceActive || r.Newest.IsZero() || r.DueAt.Before(now.Add(-behindAfter)) {
		t.Errorf("%s: %v, with the task %s due at %v: it has stopped", r.Name, r.State, r.Newest, r.DueAt)
	}
	return doubled
}
