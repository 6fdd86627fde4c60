package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// torn is an index one of whose shards fails, like a slot under migration or a node that is away.
type torn struct {
	Index
	shard int
	on    *bool
}

var errTorn = errors.New("TRYAGAIN")

// part returns the tasks of the other shards, and the error that names the failed shard.
func (i torn) part(tasks []task.Task) ([]task.Task, error) {
	var sound []task.Task
	var err error
	for _, t := range tasks {
		if *i.on && t.Shard == i.shard {
			err = i.fails(t.Shard)
			continue
		}
		sound = append(sound, t)
	}
	return sound, err
}

func (i torn) fails(shard int) error {
	if !*i.on || shard != i.shard {
		return nil
	}
	return &protocol.ShardsError{Shards: map[int]error{shard: errTorn}}
}

func (i torn) Put(ctx context.Context, tasks []task.Task) error {
	sound, failed := i.part(tasks)
	return errors.Join(i.Index.Put(ctx, sound), failed)
}

func (i torn) Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error) {
	all, err := i.Index.Standings(ctx, tasks)
	if err != nil {
		return nil, err
	}
	_, err = i.part(tasks)
	for n, t := range tasks {
		if err != nil && t.Shard == i.shard {
			all[n] = protocol.Standing{}
		}
	}
	return all, err
}

func (i torn) Repair(ctx context.Context, repairs []protocol.Repair) (int, error) {
	var sound []protocol.Repair
	var failed error
	for _, r := range repairs {
		if err := i.fails(r.Task.Shard); err != nil {
			failed = err
			continue
		}
		sound = append(sound, r)
	}
	n, err := i.Index.Repair(ctx, sound)
	return n, errors.Join(err, failed)
}

func (i torn) Fill(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	sound, failed := i.part(tasks)
	otherwise, err := i.Index.Fill(ctx, sound)
	return otherwise, errors.Join(err, failed)
}

func (i torn) Marked(ctx context.Context, shards int) ([]bool, error) {
	marked, err := i.Index.Marked(ctx, shards)
	if err == nil && *i.on {
		marked[i.shard] = true
	}
	return marked, errors.Join(err, i.fails(i.shard))
}

func (i torn) ScanDue(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	if i.fails(shard) != nil {
		return nil, cursor, errTorn
	}
	return i.Index.ScanDue(ctx, shard, cursor, count)
}

func (i torn) ScanOwners(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	if i.fails(shard) != nil {
		return nil, cursor, errTorn
	}
	return i.Index.ScanOwners(ctx, shard, cursor, count)
}

// ofEach makes a task for each shard.
func ofEach(due time.Duration) []task.Task {
	var all []task.Task
	for n, seen := 0, map[int]bool{}; len(seen) < shards; n++ {
		one := pending(fmt.Sprint("owner-", n), due)
		if one.Shard = protocol.Shard(one.Owner, shards); !seen[one.Shard] {
			seen[one.Shard] = true
			all = append(all, one)
		}
	}
	return all
}

// Every pass does its work in the shards that answer, and does the work of the failed shard once that shard answers.
func TestPassesGoOnWithoutAFailingShard(t *testing.T) {
	t.Parallel()
	const failing = 1
	for name, c := range map[string]struct {
		due  time.Duration
		pass sweepRun
	}{
		"lookahead":  {sec(30), new(lookahead).pass},
		"overdue":    {-time.Hour, (&overdue{last: base.Add(-time.Hour)}).pass},
		"rebuild":    {time.Hour, new(rebuild).pass},
		"audit rows": {time.Hour, new(auditRows).pass},
		"changed":    {time.Hour, new(changed).pass},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			on := true
			w.index = torn{w.index, failing, &on}
			w.cfg.Lookahead = time.Minute
			var rows []task.Task
			for _, one := range ofEach(c.due) {
				one.UpdatedAt = base.Add(sec(-2))
				rows = append(rows, w.insert(t, one)...)
			}
			if name == "changed" {
				for i, row := range rows {
					w.now = base.Add(sec(-2))
					rows[i] = w.save(t, w.moved(t, row, c.due+time.Minute))
				}
				w.now = base
			}
			_, err := w.try(t.Context(), c.pass)
			if failed, ok := protocol.FailedShards(err); !ok || len(failed) != 1 || !errors.Is(failed[failing], errTorn) {
				t.Errorf("the pass ended with %v, want it to name shard %d", err, failing)
			}
			for _, row := range rows {
				want := both(row)
				if row.Shard == failing {
					want = nowhere
				}
				w.wantStanding(t, fmt.Sprint("shard ", row.Shard), row, want)
			}
			if name != "lookahead" { // which goes over the same rows again, though none of them is due soon
				w.now = base.Add(5 * time.Minute) // later than the windows of all passes
			}
			on = false
			for range 2 {
				w.run(t, c.pass)
			}
			for _, row := range rows {
				w.wantStanding(t, fmt.Sprint("healed shard ", row.Shard), row, both(row))
			}
		})
	}
}

// A compensation for a failed shard does not delay later compensations.
func TestCompensationsOfAFailingShardAreMadeGoodLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	on := true
	w.index = torn{w.index, 1, &on}
	var ids []task.ID
	var rows []task.Task
	for _, one := range ofEach(sec(-5)) { // their moment has come: no sweep puts them at once
		rows = append(rows, w.insert(t, one)...)
		ids = append(ids, one.ID)
	}
	pipelinetest.Must(t, w.compensate(t.Context(), []protocol.Compensation{{IDs: ids}}))
	for _, row := range rows {
		if row.Shard != 1 {
			w.wantStanding(t, "compensated", row, both(row))
		}
	}
	on = false
	w.run(t, new(changed).pass)
	w.wantTruth(t)
}

// The put of such compensations fails as well. The next pass repeats it.
func TestCompensationsOfAHealedShardAreKeptUntilTheyArePut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	on, down := true, atomic.Bool{}
	w.index, w.store = torn{w.index, 1, &on}, downStore{w.store, &down}
	var ids []task.ID
	rows := w.insert(t, ofEach(sec(-5))...)
	w.put(t, rows...)
	w.publish(t, rows...) // and the hints are lost: only the compensations say so
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	pipelinetest.Must(t, w.compensate(t.Context(), []protocol.Compensation{{IDs: ids}}))
	on = false
	down.Store(true)
	c := new(changed)
	if _, err := w.try(t.Context(), c.pass); err == nil {
		t.Fatal("the database is away, but the pass did not fail")
	}
	down.Store(false)
	w.run(t, c.pass)
	w.wantTruth(t)
}

// The audit of the index skips a set that can't be read, and reads the following sets.
func TestAuditGoesOnBehindAPlaceThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	on := true
	w.index = torn{w.index, 1, &on}
	ghosts := ofEach(time.Hour)
	w.put(t, ghosts...)
	a := w.auditIndex()
	if _, err := w.try(t.Context(), a.pass); !errors.Is(err, errTorn) {
		t.Errorf("got %v, want it to tell of what failed", err)
	}
	for _, one := range ghosts {
		want := nowhere
		if one.Shard == 1 {
			want = both(one)
		}
		w.wantStanding(t, fmt.Sprint("shard ", one.Shard), one, want)
	}
}

// The changed pass remembers only rows of its window, however long earlier passes failed.
func TestChangedRemembersNoMoreThanItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	name, away := "primary", error(nil)
	w.index = elsewhere{w.index, &name, &away}
	c := new(changed)
	w.run(t, c.pass)
	away = errors.New("away")
	for i := range 200 {
		w.now = base.Add(sec(float64(3 * i)))
		w.save(t, w.moved(t, w.insert(t, pending("ann", time.Hour))[0], 2*time.Hour))
		if _, err := w.try(t.Context(), c.pass); !errors.Is(err, away) {
			t.Fatalf("got %v", err)
		}
	}
	away, w.now = nil, w.now.Add(sec(2))
	w.run(t, c.pass)
	if n := len(c.compared); n > 10 { // one every 3 s, in a window of 20 s
		t.Errorf("%d rows are remembered", n)
	}
	w.wantTruth(t)
}
