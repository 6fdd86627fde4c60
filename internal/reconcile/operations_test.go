package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// operate makes an operation, and sets the pass's clock.
func (w *world) operate(t testing.TB, o task.Operation) task.Operation {
	t.Helper()
	w.now = value(t)(w.rows.Now(t.Context(), nil))
	o, err := transition.BeginOperation(o, "ann@host", w.now)
	pipelinetest.Must(t, err)
	_, err = w.rows.InsertOperation(t.Context(), w.rows.DB(), o)
	pipelinetest.Must(t, err)
	return o
}

// become changes the state of an operation, as a service does.
func (w *world) become(t testing.TB, id task.ID, s task.OperationState) {
	t.Helper()
	tx, err := w.rows.Begin(t.Context())
	pipelinetest.Must(t, err)
	defer func() { _ = tx.Rollback() }()
	o, _, err := w.rows.LockOperation(t.Context(), tx, id)
	pipelinetest.Must(t, err)
	o, err = transition.ChangeOperation(o, s, w.now)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, w.rows.SaveOperation(t.Context(), tx, o))
	pipelinetest.Must(t, tx.Commit())
}

func (w *world) operation(t testing.TB, id task.ID) task.Operation {
	t.Helper()
	o, found, err := w.rows.Operation(t.Context(), nil, id)
	pipelinetest.Must(t, err)
	if !found {
		t.Fatalf("operation %s has no row", id)
	}
	return o
}

// finish runs the pass until the operation is over.
func (w *world) finish(t testing.TB, id task.ID) task.Operation {
	t.Helper()
	pass := &operations{r: w.Reconciler}
	for range 1000 {
		if o := w.operation(t, id); o.Over() {
			return o
		}
		w.run(t, pass.pass)
	}
	t.Fatalf("not over after 1000 runs: %+v", w.operation(t, id))
	return task.Operation{}
}

// timer is a row that was made an hour before the database's time, and is due after it.
func (w *world) timer(t testing.TB, owner, kind string, due time.Duration) task.Task {
	t.Helper()
	now := value(t)(w.rows.Now(t.Context(), nil))
	one := pending(owner, 0)
	one.Kind, one.DueAt, one.RunAt = kind, now.Add(due), now.Add(due)
	one.CreatedAt, one.UpdatedAt = now.Add(-time.Hour), now.Add(-time.Hour)
	return one
}

// timers makes n rows, of this kind and of another in turn, that are due from an hour on, and puts them.
func (w *world) timers(t testing.TB, kind string, n int) []task.Task {
	t.Helper()
	tasks := make([]task.Task, n)
	for i := range tasks {
		tasks[i] = w.timer(t, fmt.Sprint("owner-", i%13), []string{kind, "other"}[i%2], time.Hour+time.Duration(i)*time.Second)
	}
	rows := w.insert(t, tasks...)
	w.put(t, rows...)
	return rows
}

// discard makes each nth row dead.
func (w *world) discard(t testing.TB, rows []task.Task, nth int) {
	t.Helper()
	var dead []task.Task
	for i := 0; i < len(rows); i += nth {
		rows[i] = transition.Discard(rows[i], errors.New("enough"), rows[i].CreatedAt.Add(time.Minute))
		dead = append(dead, rows[i])
	}
	pipelinetest.Must(t, worldtest.Save(t.Context(), w.rows.Store, w.rows.DB(), dead...))
	w.put(t, dead...)
}

// as reads the rows as they are now, in the order of the others.
func (w *world) as(t testing.TB, rows []task.Task) []task.Task {
	t.Helper()
	found, err := w.rows.Get(t.Context(), nil, protocol.IDs(rows))
	pipelinetest.Must(t, err)
	byID := protocol.ByID(found)
	for i := range rows {
		found[i] = byID[rows[i].ID]
	}
	return found
}

// wantOperated checks that the operation has changed exactly the rows that it matches, each once, with a line of its own.
func (w *world) wantOperated(t testing.TB, o task.Operation, rows []task.Task) {
	t.Helper()
	for i, row := range w.as(t, rows) {
		want := rows[i]
		if transition.OperationMatches(o, want) {
			var err error
			want, err = transition.Apply(o, want, row.UpdatedAt)
			pipelinetest.Must(t, err)
		}
		if d := cmp.Diff(want, row); d != "" {
			t.Errorf("row %d (-want +got):\n%s", i, d)
		}
		lines, err := w.rows.History(t.Context(), row.ID, 10)
		pipelinetest.Must(t, err)
		if changed := transition.OperationMatches(o, rows[i]); changed != (len(lines) == 1) || changed && lines[0].Actor != "ann@host" {
			t.Errorf("row %d, matched %v, has the lines %+v", i, changed, lines)
		}
	}
	w.wantTruth(t)
}

func TestOperationOfEachVerb(t *testing.T) {
	t.Parallel()
	timers := task.Filter{Kind: "timer"}
	for _, o := range []task.Operation{
		{Verb: task.VerbShift, By: 2 * time.Hour, Filter: timers},
		{Verb: task.VerbShift, By: -90 * time.Minute, Filter: timers}, // some only to now
		{Verb: task.VerbCancel, Filter: task.Filter{OwnerPrefix: "owner-1"}},
		{Verb: task.VerbCancel, Filter: task.Filter{Owner: "owner-1"}},
		{Verb: task.VerbCancel, Filter: task.Filter{All: true, Exclude: task.Exclusion{Kinds: []string{"timer"}}}},
		{Verb: task.VerbRequeue, To: "mails", Filter: timers},
		{Verb: task.VerbRetry, Filter: timers},
		{Verb: task.VerbDiscard, Filter: task.Filter{All: true}},
	} {
		t.Run(o.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			rows := w.timers(t, "timer", 1300)
			w.discard(t, rows, 5)
			o := w.operate(t, o)
			matching := int64(0)
			for _, row := range rows {
				if transition.OperationMatches(o, row) {
					matching++
				}
			}
			done := w.finish(t, o.ID)
			if left := done.Ended + done.Unchanged; done.Changed != matching || done.Looked != matching || left > 0 {
				t.Errorf("done: %+v, want %d changed", done, matching)
			}
			w.wantOperated(t, o, rows)
			if o.Verb != task.VerbRequeue {
				return
			}
			for _, row := range rows { // the entry of the old queue
				if transition.OperationMatches(o, row) {
					w.wantStanding(t, "the old queue", row, nowhere)
				}
			}
		})
	}
}

// Between two pages an operation stops where it was paused, goes on after a resume, and ends where it was cancelled.
func TestPausedOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 40)
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: "timer"}, Rate: 5})
	pass := &operations{r: w.Reconciler}
	changed := func(what string, want int64) {
		t.Helper()
		w.run(t, pass.pass)
		if got := w.operation(t, o.ID).Changed; got != want {
			t.Errorf("%s: %d rows changed, want %d", what, got, want)
		}
	}
	changed("running", 5)
	w.become(t, o.ID, task.OperationPaused)
	changed("paused", 5)
	w.become(t, o.ID, task.OperationRunning)
	changed("resumed", 10)
	w.become(t, o.ID, task.OperationCancelled)
	changed("cancelled", 10)
	moved := 0
	for i, row := range w.as(t, rows) {
		if row.DueAt.Equal(rows[i].DueAt.Add(2*time.Hour)) && row.Version == 2 {
			moved++
		}
	}
	if moved != 10 {
		t.Errorf("%d rows moved, want 10", moved)
	}
	w.wantTruth(t)
}

// Rows that end between the making of an operation and their turn are counted, and not changed. Rows that no longer match,
// and rows that are made later, are neither.
func TestOperationMeetsChangedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 20) // ten of the kind
	soon := rows[18].DueAt.Add(time.Minute)
	filter := task.Filter{Kind: "timer", DueBefore: soon}
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: filter})
	at := w.now.Add(time.Millisecond)
	rows[0] = w.save(t, transition.Finish(rows[0], at))
	rows[2] = w.save(t, transition.Discard(rows[2], errors.New("enough"), at))
	moved, err := transition.Move(rows[4], soon, at)
	pipelinetest.Must(t, err)
	rows[4] = w.save(t, moved)
	late := w.timer(t, "ann", "timer", time.Hour)
	late.CreatedAt = at
	rows = append(rows, w.insert(t, late)...)
	w.put(t, rows...)
	if done := w.finish(t, o.ID); done.Changed != 7 || done.Ended != 2 || done.Unchanged != 0 || done.Looked != 9 {
		t.Errorf("done: %+v, want 7 changed and 2 ended", done)
	}
	w.wantOperated(t, o, rows)
}

// A cancelled tick makes the next one, which was made after the operation: it stays, even if the clock was set back meanwhile.
func TestOperationCancelsTick(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	r, row := w.recur(t, "ann")
	o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{All: true}, Rate: 1})
	w.alter(t, w.rows.DB(), "UPDATE duetime_operations SET created_at = created_at + 3600000")
	if done := w.finish(t, o.ID); done.Changed != 1 {
		t.Errorf("done: %+v, want 1 changed", done)
	}
	got, _, err := w.rows.Recurrence(t.Context(), w.rows.DB(), "ann", "meals")
	pipelinetest.Must(t, err)
	if got.Newest.IsZero() || got.Newest == r.Newest {
		t.Fatalf("there is no next tick: %+v", got)
	}
	ticks := w.as(t, []task.Task{row, {ID: got.Newest}})
	if ticks[0].State != task.Cancelled || ticks[1].State != task.Pending || got.Made != 2 {
		t.Errorf("the ticks are %+v of %+v", ticks, got)
	}
	w.wantTruth(t)
}

// A shift leaves the tasks of recurrences on their timetables, unless it is for them too.
func TestShiftLeavesRecurrences(t *testing.T) {
	t.Parallel()
	for _, with := range []bool{false, true} {
		w := newWorld(t, Config{})
		_, tick := w.recur(t, "ann")
		rows := append(w.timers(t, "timer", 4), tick)
		o := task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{All: true}, Recurrences: with}
		matching, err := w.rows.CountMatching(t.Context(), o)
		pipelinetest.Must(t, err)
		o = w.operate(t, o)
		moved := 0
		done := w.finish(t, o.ID)
		for i, row := range w.as(t, rows) {
			if row.DueAt.Equal(rows[i].DueAt.Add(2 * time.Hour)) {
				moved++
			}
		}
		want := map[bool]int{false: 4, true: 5}[with]
		if moved != want || done.Changed != int64(want) || done.Looked != int64(want) || matching != int64(want) {
			t.Errorf("recurrences %v: %d rows moved, the preview counts %d, done is %+v; want %d", with, moved, matching, done, want)
		}
	}
}

// A retry leaves tasks dead whose key another task has, and goes on with the others.
func TestOperationMeetsTakenKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 250)
	w.discard(t, rows, 2) // those of the kind
	first, taken := w.timer(t, "holder", "timer", time.Hour), w.timer(t, "holder", "timer", 2*time.Hour)
	first.DedupKey, taken.DedupKey = "kbreakfast", "kbreakfast"
	dead := w.save(t, transition.Discard(w.insert(t, first)[0], errors.New("enough"), first.CreatedAt))
	w.put(t, w.insert(t, taken)...)
	o := w.operate(t, task.Operation{Verb: task.VerbRetry, Filter: task.Filter{Kind: "timer"}})
	if done := w.finish(t, o.ID); done.Changed != 125 || done.Unchanged != 1 || done.Looked != 126 {
		t.Errorf("done: %+v, want 125 changed and 1 left alone", done)
	}
	if got := w.as(t, []task.Task{dead}); got[0].State != task.Dead || got[0].Version != dead.Version {
		t.Errorf("the one whose key is taken is %+v", got[0])
	}
	w.wantOperated(t, o, rows)
}

// A task that would be due beyond the limit is left alone.
func TestOperationLeavesTimesOutOfBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 4)
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: task.MaxAhead, Filter: task.Filter{Kind: "timer"}})
	if done := w.finish(t, o.ID); done.Changed != 0 || done.Unchanged != 2 {
		t.Errorf("done: %+v, want 2 left alone", done)
	}
	if d := cmp.Diff(rows, w.as(t, rows)); d != "" {
		t.Errorf("the rows (-want +got):\n%s", d)
	}
}

// An operation that this daemon can't read is paused, with the reason, and the next one goes on.
func TestUnreadableOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := w.timers(t, "timer", 4)
	o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{All: true}})
	w.alter(t, w.rows.DB(), "UPDATE duetime_operations SET verb = 'promote'")
	next := w.operate(t, task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: task.Filter{Kind: "timer"}})
	w.finish(t, next.ID)
	if got := w.operation(t, o.ID); got.State != task.OperationPaused || got.Error == "" {
		t.Errorf("the unreadable one is %+v", got)
	}
	w.wantOperated(t, next, rows)
}

func TestOperationIsPaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate, changed int
		busy          bool
		took          time.Duration
		want          loop.Result
	}{
		{0, 1000, false, time.Second, loop.Result{More: true}},
		{0, 50, true, 10 * time.Millisecond, loop.Result{Next: 20 * time.Millisecond}},
		{100, 100, false, 100 * time.Millisecond, loop.Result{Next: 900 * time.Millisecond}},
		{100, 50, true, 10 * time.Millisecond, loop.Result{Next: 490 * time.Millisecond}},
		{100, 1, true, 10 * time.Millisecond, loop.Result{Next: 20 * time.Millisecond}},
		{100, 0, false, 10 * time.Millisecond, loop.Result{More: true}},
		{100, 100, false, 2 * time.Second, loop.Result{More: true}},
	} {
		if got := paced(c.rate, c.changed, c.busy, c.took); got != c.want {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	for _, c := range []struct {
		rate          int
		busy          bool
		scan, size, n int
	}{
		{0, false, operationScan * page, page, rehomePages},
		{0, true, operationScan * rehomeSmall, rehomeSmall, 1},
		{10, false, operationScan * page, 10, 1},
		{10, true, operationScan * rehomeSmall, 10, 1},
		{1_000_000, false, operationScan * page, page, 1},
		{1_000_000, true, operationScan * rehomeSmall, rehomeSmall, 1},
	} {
		if scan, size, n := pagesOf(c.rate, c.busy); scan != c.scan || size != c.size || n != c.n {
			t.Errorf("%+v: got %d pages of %d among %d", c, n, size, scan)
		}
	}
}

// A slow operation, a large one and one whose pages fail don't keep others waiting, and each goes on as its rate allows.
func TestOperationsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.timers(t, "timer", 80)
	slow := w.operate(t, task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: task.Filter{Kind: "timer"}, Rate: 1})
	fast := w.operate(t, task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: task.Filter{Kind: "other"}, Rate: 10})
	failing := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "none"}})
	w.store = bounded{failingStore{hookStore{w.rows, w}, failing.ID}}
	pass := &operations{r: w.Reconciler}
	failed := 0
	for range 15 {
		before := maps.Clone(pass.next)
		if _, err := pass.pass(t.Context(), w.clock); err != nil {
			failed++
		}
		for id, wait := range map[task.ID]time.Duration{slow.ID: time.Hour, fast.ID: 0} { // as if their rates allowed no more, and more
			if !pass.next[id].Equal(before[id]) {
				pass.next[id] = time.Now().Add(wait)
			}
		}
	}
	if got := w.operation(t, slow.ID); got.Changed != 1 {
		t.Errorf("the slow one has changed %d, want 1", got.Changed)
	}
	if got := w.operation(t, fast.ID); got.State != task.OperationDone || got.Changed != 40 {
		t.Errorf("the other one: %+v", got)
	}
	if failed < 5 {
		t.Errorf("the failing one had %d turns", failed)
	}
	one, two := task.Operation{ID: task.NewID()}, task.Operation{ID: task.NewID()}
	pass.next = map[task.ID]time.Time{one.ID: time.Now().Add(time.Hour), two.ID: time.Now().Add(time.Minute)}
	if got := pass.nextRun([]task.Operation{one, two}, loop.Result{More: true}); got.Next <= 0 || got.Next > time.Minute {
		t.Errorf("the next run is in %v, want the first turn's moment", got.Next)
	}
	if got := pass.nextRun([]task.Operation{one, two}, loop.Result{Next: 2 * time.Minute}); got.Next != 2*time.Minute {
		t.Errorf("the next run is in %v, want the sleep beside running tasks", got.Next)
	}
	if got := pass.nextRun([]task.Operation{one, {}}, loop.Result{More: true}); !got.More {
		t.Errorf("a new operation waits for %v", got.Next)
	}
}

// failingStore fails to lock the row of an operation.
type failingStore struct {
	hookStore
	id task.ID
}

func (f failingStore) LockOperation(ctx context.Context, q sqlx.ExtContext, id task.ID) (task.Operation, bool, error) {
	if id == f.id {
		return task.Operation{}, false, errors.New("it fails")
	}
	return f.hookStore.LockOperation(ctx, q, id)
}

// A small rate bounds the changes, not the look for rows to change.
func TestSlowOperationFindsFewRowsAmongMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	rows := make([]task.Task, 201)
	for i := range rows {
		rows[i] = w.timer(t, "ann", "other", time.Hour)
	}
	rows[200].Kind = "timer"
	rows = w.insert(t, rows...)
	w.put(t, rows...)
	o := w.operate(t, task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: task.Filter{Kind: "timer"}, Rate: 1})
	pass, runs := &operations{r: w.Reconciler}, 0
	for ; runs < 20 && !w.operation(t, o.ID).Over(); runs++ {
		w.run(t, pass.pass)
	}
	if runs > 2 {
		t.Errorf("not over after %d runs, want 2: for the one row, and for the end", runs)
	}
	w.wantOperated(t, o, rows)
}

// What an operation itself changes does not count as running tasks; what others change does.
func TestOperationMakesWayForTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.timers(t, "timer", 400)
	w.operate(t, task.Operation{Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: "timer"}, Rate: 100})
	pass := &operations{r: w.Reconciler}
	busy := func() bool {
		w.now = value(t)(w.rows.Now(t.Context(), nil)).Add(time.Millisecond)
		pass.forget(w.now.Add(-busyTime))
		busy, err := w.busy(t.Context(), w.clock, pass.at...)
		pipelinetest.Must(t, err)
		return busy
	}
	w.run(t, pass.pass)
	if len(pass.at) != 1 || busy() {
		t.Errorf("after pages of moments %v the operation counts as running tasks", pass.at)
	}
	w.now = w.now.Add(busyTime / 2)
	w.tasksRun(t)
	if !busy() {
		t.Error("running tasks are not seen")
	}
	if res := w.run(t, pass.pass); res.More || len(pass.at) == 0 {
		t.Errorf("beside running tasks it does not sleep: %+v", res)
	}
}

// sample returns the value of a counter or a gauge.
func sample(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var d dto.Metric
	pipelinetest.Must(t, m.Write(&d))
	return d.GetCounter().GetValue() + d.GetGauge().GetValue()
}

func TestOperationsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	w.timers(t, "timer", 20)
	o := w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "timer"}, Rate: 6})
	pass := &operations{r: w.Reconciler}
	w.run(t, pass.pass)
	if got := sample(t, w.metrics.operations); got != 1 {
		t.Errorf("%v operations run, want 1", got)
	}
	w.finish(t, o.ID)
	w.run(t, pass.pass)
	if got := sample(t, w.metrics.operations); got != 0 {
		t.Errorf("%v operations run, want 0", got)
	}
	if got := sample(t, w.metrics.operated.WithLabelValues("cancel", "changed")); got != 10 {
		t.Errorf("%v rows are counted as changed, want 10", got)
	}
}

// What waits for an earlier task of its order key is tried at once when an operation ends that one.
func TestOperationWakesWhatWaitsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	head, behind := w.timer(t, "ann", "march", -time.Hour), w.timer(t, "bob", "siege", -time.Minute)
	head.OrderKey, behind.OrderKey = "kcity", "kcity"
	rows := w.insert(t, head, behind)
	w.now = value(t)(w.rows.Now(t.Context(), nil))
	head = w.save(t, transition.Fail(rows[0], errors.New("sick"), time.Hour, w.now))
	behind = w.save(t, transition.WaitBehind(rows[1], protocol.Head{Task: head}, w.now))
	w.put(t, head, behind)
	w.finish(t, w.operate(t, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "march"}}).ID)
	now := value(t)(w.rows.Now(t.Context(), nil))
	if got := w.as(t, rows); got[0].State != task.Cancelled || got[1].RunAt.After(now) {
		t.Errorf("%v, and what waited behind it has its next try in %v", got[0].State, got[1].RunAt.Sub(now))
	}
	w.wantTruth(t)
}
