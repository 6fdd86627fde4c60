package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// layout reads the layout, so that the passes know it too.
func (w *world) layout(t testing.TB) protocol.Layout {
	t.Helper()
	l, err := w.rows.Layout(t.Context())
	pipelinetest.Must(t, err)
	return l
}

// change begins a change of the number of shards.
func (w *world) change(t testing.TB, n int) {
	t.Helper()
	pipelinetest.Must(t, w.rows.PollShards(t.Context(), n))
	w.run(t, new(rebuild).pass)
	pipelinetest.Must(t, w.rows.BeginChange(t.Context(), w.rows.DB(), w.layout(t), n))
	w.layout(t)
}

// moveAll runs the pass until the change is over.
func (w *world) moveAll(t testing.TB, m *rehome) {
	t.Helper()
	for range 1000 {
		if !w.layout(t).Changing() {
			return
		}
		w.run(t, m.pass)
		w.now = w.now.Add(time.Second)
	}
	t.Fatalf("not over after 1000 runs: %+v", w.layout(t))
}

// wantPlaced checks that every row that needs a place is in its owner's, with its version as before.
func (w *world) wantPlaced(t testing.TB, rows []task.Task) {
	t.Helper()
	l := w.layout(t)
	now, err := w.rows.Get(t.Context(), nil, protocol.IDs(rows))
	pipelinetest.Must(t, err)
	versions := map[task.ID]int64{}
	for _, row := range rows {
		versions[row.ID] = row.Version
	}
	for _, row := range now {
		if l.Misplaced(row) {
			t.Fatalf("%v row of %s is in shard %d, its place is %d", row.State, row.Owner, row.Shard, l.Place(row.Owner))
		}
		if row.Version != versions[row.ID] {
			t.Fatalf("version %d of %s, want %d as before", row.Version, row.ID, versions[row.ID])
		}
	}
}

// population makes rows of many owners, some near, some far, some dead, some done.
func (w *world) population(t testing.TB, n int) []task.Task {
	t.Helper()
	var tasks []task.Task
	for i := range n {
		tasks = append(tasks, pending(fmt.Sprint("owner-", i%97), time.Duration(i)*time.Second+time.Minute))
	}
	rows := w.insert(t, tasks...)
	for i := range rows {
		switch i % 20 {
		case 0:
			dead := transition.Discard(rows[i], errors.New("enough"), w.now)
			rows[i] = w.save(t, dead)
		case 1:
			rows[i] = w.save(t, w.cancelled(t, rows[i]))
		}
	}
	w.put(t, rows...)
	return rows
}

// tasksRun makes rows change as they do while tasks run.
func (w *world) tasksRun(t testing.TB) {
	t.Helper()
	rows := make([]task.Task, busyRows)
	for i := range rows {
		rows[i] = pending("busy", 5*time.Hour)
		rows[i].UpdatedAt = w.now.Add(-busyTime / 2)
	}
	w.put(t, w.insert(t, rows...)...)
}

func TestRehome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	rows := w.population(t, 1200)
	w.wantTruth(t)
	for _, n := range []int{64, 16, 3, 4} {
		w.change(t, n)
		began := w.now
		m := new(rehome)
		w.run(t, m.pass)
		if l := w.layout(t); l.Moved != 0 {
			t.Errorf("%d rows moved before all processes know the layout", l.Moved)
		}
		w.moveAll(t, m)
		if took := w.now.Sub(began); took < 2*w.cfg.Settle {
			t.Errorf("to %d shards: over after %v, before the last lap's time", n, took)
		}
		w.wantPlaced(t, rows)
		w.wantTruth(t)
		if l := w.layout(t); l.Shards != n || l.ShardsFrom != 0 || l.Moved == 0 || l.ToMove != l.Moved {
			t.Errorf("to %d shards: layout %+v", n, l)
		}
	}
}

// errKilled stands for the daemon's death.
var errKilled = errors.New("killed")

// killer fails the nth call of the pass that matters, before or after it took effect, and every call after it.
type killer struct {
	mu        sync.Mutex
	calls, at int
	after     bool
}

func (k *killer) call(fn func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.calls > k.at || k.calls == k.at && !k.after {
		return errKilled
	}
	if err := fn(); err != nil || k.calls < k.at {
		return err
	}
	return errKilled
}

type killedStore struct {
	Store
	k *killer
}

func (s killedStore) Rehome(ctx context.Context, l protocol.Layout, ids []task.ID) (rows []task.Task, err error) {
	err = s.k.call(func() error { rows, err = s.Store.Rehome(ctx, l, ids); return err })
	return rows, err
}

func (s killedStore) EndChange(ctx context.Context, l protocol.Layout, line protocol.Event) error {
	return s.k.call(func() error { return s.Store.EndChange(ctx, l, line) })
}

type killedIndex struct {
	Index
	k *killer
}

func (x killedIndex) Fill(ctx context.Context, tasks []task.Task) (other []task.Task, err error) {
	err = x.k.call(func() error { other, err = x.Index.Fill(ctx, tasks); return err })
	return other, err
}

func (x killedIndex) Repair(ctx context.Context, repairs []protocol.Repair) (n int, err error) {
	err = x.k.call(func() error { n, err = x.Index.Repair(ctx, repairs); return err })
	return n, err
}

// A daemon dies before or after any write of a move. The next one ends the move, and all is right at the end.
func TestRehomeSurvivesTheDaemonsDeath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	rows := w.population(t, 60)
	store, index := w.store, w.index
	sizes, round := []int{16, 4}, 0
	for at := 1; ; at++ {
		died := false
		for _, after := range []bool{false, true} {
			k := &killer{at: at, after: after}
			w.change(t, sizes[round%2])
			round++
			w.store, w.index = killedStore{store, k}, killedIndex{index, k}
			m := new(rehome)
			for w.layout(t).Changing() {
				if _, err := w.try(t.Context(), m.pass); errors.Is(err, errKilled) {
					died = true
					break
				} else if err != nil {
					t.Fatal(err)
				}
				w.now = w.now.Add(time.Second)
			}
			w.store, w.index = store, index
			w.alarms.Store(0) // what the dead one knew
			next := new(rehome)
			w.moveAll(t, next)
			w.run(t, next.pass)
			if w.alarms.Load() == 0 {
				t.Errorf("killed at write %d, after it: %v: the change is over, and nothing is audited", at, after)
			}
			w.wantPlaced(t, rows)
			w.run(t, new(auditIndex).pass)
			w.wantTruth(t)
		}
		if !died {
			if at < 4 {
				t.Errorf("only %d writes to die at", at-1)
			}
			return
		}
	}
}

// The answer that a change is over is lost. The next run sees that it is over, and has everything audited, once.
func TestLostEndOfAChangeIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	w.change(t, 16)
	store := w.store
	w.store = killedStore{store, &killer{at: 1, after: true}}
	m := new(rehome)
	for w.layout(t).Changing() {
		if _, err := w.try(t.Context(), m.pass); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
	}
	w.store = store
	if n := w.alarms.Load(); n != 0 {
		t.Fatalf("%d alarms before the end is known", n)
	}
	for range 3 {
		w.run(t, m.pass)
	}
	if n := w.alarms.Load(); n != 1 {
		t.Errorf("%d alarms after the end, want 1", n)
	}
	over := w.now
	for _, after := range []time.Duration{auditAfter - time.Minute, auditAfter + time.Minute} {
		w.now = over.Add(after)
		w.run(t, new(rehome).pass)
		if n := w.alarms.Load(); n != 2 {
			t.Errorf("%d alarms after a term that began %v after the change, want one more up to %v", n, after, auditAfter)
		}
	}
}

// A pause stops a move, a resume goes on, and a cancel goes back.
func TestRehomeIsPausedAndCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	rows := w.population(t, 700)
	w.change(t, 64)
	m := new(rehome)
	w.run(t, m.pass)
	w.now = w.now.Add(w.cfg.Settle)
	w.tasksRun(t)
	w.run(t, m.pass)
	l := w.layout(t)
	if l.Moved == 0 || l.Moved >= l.ToMove {
		t.Fatalf("%d of %d rows moved by one run beside running tasks, want some", l.Moved, l.ToMove)
	}
	_, err := w.rows.PauseChange(t.Context(), w.rows.DB(), l, true)
	pipelinetest.Must(t, err)
	w.run(t, m.pass)
	if now := w.layout(t); now.Moved != l.Moved {
		t.Errorf("%d rows moved while the change was paused", now.Moved-l.Moved)
	}
	_, err = w.rows.PauseChange(t.Context(), w.rows.DB(), l, false)
	pipelinetest.Must(t, err)
	w.run(t, m.pass)
	if now := w.layout(t); now.Moved == l.Moved {
		t.Error("no row moved after the resume")
	}
	pipelinetest.Must(t, w.rows.CancelChange(t.Context(), w.rows.DB(), w.layout(t)))
	w.moveAll(t, m)
	w.wantPlaced(t, rows)
	w.wantTruth(t)
	if l := w.layout(t); l.Shards != shards || l.Polled() != 64 {
		t.Errorf("layout after the cancel: %+v", l)
	}
}

// A row of a program that knows an old number of shards is moved by the sweep that meets it, at any time.
func TestStaleInsertIsMet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	w.change(t, 16)
	w.moveAll(t, new(rehome))
	for name, sweep := range map[string]func(){
		"changed":    func() { w.run(t, new(changed).pass) },
		"lookahead":  func() { w.run(t, new(lookahead).pass) },
		"audit rows": func() { w.run(t, w.auditRows().pass) },
	} {
		stale := pending("stale of "+name, w.now.Sub(base)+30*time.Second)
		stale.UpdatedAt = w.now.Add(-2 * time.Second)
		for i := 0; protocol.Shard(stale.Owner, 16) == protocol.Shard(stale.Owner, shards); i++ {
			stale.Owner = fmt.Sprint(name, i)
		}
		stale = w.insert(t, stale)[0]
		old := protocol.Shard(stale.Owner, shards)
		_, err := w.rows.DB().ExecContext(t.Context(), "UPDATE duetime_tasks SET shard = ? WHERE id = ?", old, stale.ID[:])
		pipelinetest.Must(t, err)
		stale.Shard = old
		w.put(t, stale)
		w.layout(t)
		sweep()
		w.wantPlaced(t, []task.Task{stale})
		w.wantTruth(t)
	}
}

// A writer that read its row before the move puts into the old place afterwards. The entry is removed while the change goes on.
func TestLatePutIntoTheOldPlaceIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	rows := w.population(t, 97)
	w.change(t, 64)
	l := w.layout(t)
	i := slices.IndexFunc(rows, func(row task.Task) bool { return row.State == task.Pending && l.Misplaced(row) })
	read := rows[i]
	m := new(rehome)
	w.run(t, m.pass)
	w.now = w.now.Add(w.cfg.Settle)
	w.run(t, m.pass)
	next := w.save(t, w.moved(t, read, time.Hour)) // saved by its version, which did not move
	w.put(t, next)                                 // into the shard that the writer has read
	w.now = w.now.Add(2 * time.Second)
	w.run(t, new(changed).pass)
	w.wantTruth(t)
	rows[i] = next
	w.moveAll(t, m)
	w.wantPlaced(t, rows)
	w.wantTruth(t)
}

// New shards of a growth are complete at once, before any row goes there.
func TestNewShardsAreCompleteAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	b := new(rebuild)
	w.run(t, b.pass)
	w.population(t, 10)
	pipelinetest.Must(t, w.rows.PollShards(t.Context(), 64))
	read := 0
	store := w.store
	w.store = countedStore{store, &read}
	w.run(t, b.pass)
	w.store = store
	marked, err := w.sets.Marked(t.Context(), 64)
	pipelinetest.Must(t, err)
	if slices.Contains(marked, false) || read != 0 {
		t.Errorf("markers %v after %d reads of the rows, want all without one", marked, read)
	}
}

type countedStore struct {
	Store
	pages *int
}

func (s countedStore) PendingExcept(
	ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int,
) ([]task.Task, protocol.Cursor, error) {
	*s.pages++
	return s.Store.PendingExcept(ctx, except, from, to, after, limit)
}

// Redis loses its memory in the middle of a change: the rebuild and the move come to the same end.
func TestRehomeAfterALossOfMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	b := new(rebuild)
	w.run(t, b.pass)
	rows := w.population(t, 700)
	w.change(t, 64)
	m := new(rehome)
	w.run(t, m.pass)
	w.now = w.now.Add(w.cfg.Settle)
	w.tasksRun(t)
	w.run(t, m.pass)
	if l := w.layout(t); l.Moved == 0 || l.Moved >= l.ToMove {
		t.Fatalf("%d of %d rows moved by one run beside running tasks, want some", l.Moved, l.ToMove)
	}
	w.flush(t)
	w.run(t, m.pass)
	w.run(t, b.pass)
	w.moveAll(t, m)
	w.wantPlaced(t, rows)
	w.wantTruth(t)
	if marked, err := w.sets.Marked(t.Context(), 64); err != nil || slices.Contains(marked, false) {
		t.Errorf("markers %v, %v", marked, err)
	}
}

// While the rows of a change are on their way, nothing of it counts as drift, and an audit beside it does no harm.
func TestRehomeIsNoDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.run(t, new(rebuild).pass)
	rows := w.population(t, 1200)
	w.change(t, 64)
	alarms := w.alarms.Load()
	m := new(rehome)
	ahead, fresh := new(lookahead), new(changed)
	for w.layout(t).Changing() {
		w.run(t, m.pass)
		w.run(t, ahead.pass)
		w.run(t, fresh.pass)
		w.now = w.now.Add(time.Second)
	}
	if n := w.alarms.Load() - alarms; n != 1 {
		t.Errorf("%d alarms, want the one of the end", n)
	}
	w.wantPlaced(t, rows)
	w.wantTruth(t)
}
