package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// operation makes one that began an hour after t0, and writes it.
func operation(t *testing.T, s *store.Store, o task.Operation) task.Operation {
	t.Helper()
	if o.Verb == "" {
		o.Verb = task.VerbCancel
	}
	if o.Verb == task.VerbShift && o.By == 0 {
		o.By = time.Hour
	}
	o, err := transition.BeginOperation(o, "ann@host", t0.Add(time.Hour))
	must(t, err)
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		made, err := s.InsertOperation(ctx, tx, o)
		if must(t, err); !made {
			t.Errorf("%s was there", o.ID)
		}
	})
	return o
}

func operations(t *testing.T, s *store.Store) {
	ctx := t.Context()
	filter := task.Filter{Kind: "k", OwnerPrefix: "Zoë", Queue: "q", Subject: "s", DueAfter: t0, DueBefore: t0.Add(time.Second)}
	first := operation(t, s, task.Operation{Verb: task.VerbShift, Filter: filter, Rate: 7, Matched: 8})
	second := operation(t, s, task.Operation{Verb: task.VerbRequeue, To: "mails", Filter: task.Filter{All: true}})
	if _, found, err := s.Operation(ctx, nil, task.NewID()); found || err != nil {
		t.Errorf("an unknown id: found %v, %v", found, err)
	}
	running := func() []task.ID {
		var all []task.ID
		for _, o := range value[[]task.Operation](t)(s.RunningOperations(ctx)) {
			all = append(all, o.ID)
		}
		return all
	}
	if d := cmp.Diff([]task.ID{first.ID, second.ID}, running()); d != "" {
		t.Errorf("running (-want +got):\n%s", d)
	}
	first.State, first.Cursor, first.Looked, first.Changed, first.Ended = task.OperationPaused, task.NewID(), 5, 2, 1
	first.Unchanged, first.Error, first.UpdatedAt = 1, "why", t0.Add(2*time.Hour)
	second = transition.EndOperation(second, t0.Add(3*time.Hour))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		for _, o := range []task.Operation{first, second} {
			if _, found, err := s.LockOperation(ctx, tx, o.ID); !found || err != nil {
				t.Errorf("locked %s: found %v, %v", o.ID, found, err)
			}
			must(t, s.SaveOperation(ctx, tx, o))
		}
	})
	if d := cmp.Diff([]task.Operation{second, first}, value[[]task.Operation](t)(s.Operations(ctx, 10))); d != "" {
		t.Errorf("listed (-want +got):\n%s", d)
	}
	if got := value[[]task.Operation](t)(s.Operations(ctx, 1)); len(got) != 1 || got[0].ID != second.ID {
		t.Errorf("the newest is %+v", got)
	}
	// The caller's id is beyond all ids that grow with time; another one of the same id leaves the first one as it is.
	third := task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "k"}}
	for i := range third.ID {
		third.ID[i] = 0xff
	}
	third = operation(t, s, third)
	must(t, exec(s.DB(), "UPDATE duetime_operations SET created_at = created_at - 1 WHERE id = ?", third.ID[:]))
	third.CreatedAt = third.CreatedAt.Add(-time.Millisecond)
	other := third
	other.Filter.Kind = "other"
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
		if made, err := s.InsertOperation(ctx, tx, other); made || err != nil {
			t.Errorf("a second one of the same id: made %v, %v", made, err)
		}
	})
	if d := cmp.Diff([]task.Operation{second, first, third}, value[[]task.Operation](t)(s.Operations(ctx, 10))); d != "" {
		t.Errorf("listed with an id of the caller's (-want +got):\n%s", d)
	}
	third = transition.EndOperation(third, t0.Add(3*time.Hour))
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.SaveOperation(ctx, tx, third)) })
	got, found, err := s.Operation(ctx, nil, first.ID)
	if d := cmp.Diff(first, got); d != "" || !found || err != nil {
		t.Errorf("read back, found %v, %v (-want +got):\n%s", found, err, d)
	}
	if got := running(); len(got) != 0 {
		t.Errorf("running are %v", got)
	}
}

// An operation whose filter this program can't read must not choose more tasks than it was made for.
func unreadableOperation(t *testing.T, s *store.Store) {
	o := operation(t, s, task.Operation{Filter: task.Filter{Kind: "k"}})
	for _, filter := range []string{`{"kind":"k","priority":7}`, `{"kind":7}`, `none`, ``} {
		must(t, exec(s.DB(), "UPDATE duetime_operations SET filter = ?", filter))
		got, _, err := s.Operation(t.Context(), nil, o.ID)
		must(t, err)
		if err := got.Check(); err == nil {
			t.Errorf("%q is read as %+v", filter, got.Filter)
		}
	}
}

// A shift that leaves recurrences alone has a field that versions before can't read: they would move them. Their own shifts, without the
// field, are for recurrences too.
func operationForRecurrences(t *testing.T, s *store.Store) {
	for _, with := range []bool{false, true} {
		o := operation(t, s, task.Operation{Verb: task.VerbShift, Filter: task.Filter{Kind: "k"}, Recurrences: with})
		got, _, err := s.Operation(t.Context(), nil, o.ID)
		if d := cmp.Diff(o, got); d != "" || err != nil {
			t.Errorf("recurrences %v: %v (-want +got):\n%s", with, err, d)
		}
		stored := value[string](t)(stored(t, s, o))
		if want := map[bool]string{false: `{"kind":"k","recurrences":false}`, true: `{"kind":"k"}`}[with]; stored != want {
			t.Errorf("recurrences %v: stored as %s, want %s", with, stored, want)
		}
	}
	o := operation(t, s, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: "k"}})
	if got, want := value[string](t)(stored(t, s, o)), `{"kind":"k"}`; got != want {
		t.Errorf("a cancel is stored as %s, want %s", got, want)
	}
}

// An operation that undoes a shift is about the tasks that the shift moved by all of its time, and that were not changed since.
func operationUndoes(t *testing.T, s *store.Store) {
	var rows []task.Task
	for i := range 7 {
		rows = append(rows, newTask(t, fmt.Sprint("owner-", i), 24*time.Hour))
	}
	rows, at := inserted(t, s, rows...), t0.Add(2*time.Hour)
	shift := operation(t, s, task.Operation{Verb: task.VerbShift, Filter: task.Filter{All: true}})
	other := operation(t, s, task.Operation{Verb: task.VerbShift, Filter: task.Filter{All: true}})
	for i, by := range []task.Operation{shift, shift, shift, shift, other, shift} { // the last row is moved by none
		moved, err := transition.Apply(by, rows[i], at)
		must(t, err)
		line := transition.OperationEvent(by, rows[i], moved)
		if i == 3 {
			line.Detail = strings.Replace(line.Detail, "by 1h0m0s", "by 59m0s", 1)
		}
		since := map[int]task.Task{1: transition.Rearm(moved, time.Minute, at.Add(time.Second)), 2: transition.Finish(moved, at.Add(time.Second))}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, worldtest.Save(ctx, s, tx, moved))
			must(t, s.Record(ctx, tx, []protocol.Event{line}))
			if next, changed := since[i]; changed {
				must(t, worldtest.Save(ctx, s, tx, next))
			}
			if i == 5 { // in the same millisecond
				next := value[task.Task](t)(transition.Shift(moved, time.Minute, at))
				must(t, worldtest.Save(ctx, s, tx, next))
				must(t, s.Record(ctx, tx, []protocol.Event{transition.Changed(moved, next)}))
			}
		})
	}
	shift = transition.EndOperation(shift, at)
	for _, filter := range []task.Filter{{}, {Owner: rows[0].Owner}} {
		shift.Filter = filter
		undo, err := transition.UndoOperation(shift)
		must(t, err)
		undo = operation(t, s, undo)
		got, _, err := s.Operation(t.Context(), nil, undo.ID)
		if d := cmp.Diff(undo, got); d != "" || err != nil {
			t.Errorf("read back: %v (-want +got):\n%s", err, d)
		}
		if d := cmp.Diff([]task.ID{rows[0].ID}, walked(t, s, undo, 3, 3)); d != "" {
			t.Errorf("%v is undone (-want +got):\n%s", filter, d)
		}
		if n := value[int64](t)(s.CountMatching(t.Context(), undo)); n != 1 {
			t.Errorf("%v: the preview counts %d, want 1", filter, n)
		}
	}
}

// stored is an operation's filter in its row.
func stored(t *testing.T, s *store.Store, o task.Operation) (text string, err error) {
	err = s.DB().GetContext(t.Context(), &text, "SELECT filter FROM duetime_operations WHERE id = ?", o.ID[:])
	return text, err
}

func purgeOperations(t *testing.T, s *store.Store) {
	for i := range 5 {
		o := operation(t, s, task.Operation{Filter: task.Filter{All: true}})
		at := t0.Add(2 * time.Hour)
		switch i {
		case 0: // running
		case 1:
			o.State, o.UpdatedAt = task.OperationPaused, at
		case 2:
			o = transition.EndOperation(o, at)
		case 3:
			o, _ = transition.ChangeOperation(o, task.OperationCancelled, at)
		case 4:
			o = transition.EndOperation(o, at.Add(time.Hour))
		}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.SaveOperation(ctx, tx, o)) })
	}
	before := t0.Add(2*time.Hour + time.Minute)
	one := value[int](t)(s.PurgeOperations(t.Context(), before, 1))
	other := value[int](t)(s.PurgeOperations(t.Context(), before, 10))
	if left := count(t, s, "SELECT COUNT(*) FROM duetime_operations"); one != 1 || other != 1 || left != 3 {
		t.Errorf("%d and %d rows were purged and %d are left, want 1, 1 and 3", one, other, left)
	}
	anew := operation(t, s, task.Operation{Filter: task.Filter{All: true}}) // by the id of one that was purged
	must(t, store.DeleteOperations(t.Context(), s, []task.ID{anew.ID}, before))
	if _, found, err := s.Operation(t.Context(), nil, anew.ID); err != nil || !found {
		t.Errorf("an operation that was begun anew: found %v, %v", found, err)
	}
}

// crowd writes tasks that differ in what filters are about, some of them ended before the operations were made, or since.
func crowd(t *testing.T, s *store.Store) []task.Task {
	t.Helper()
	var tasks []task.Task
	for i := range 60 {
		owner, subject := []string{"ann", "Ann", "an%", "a_n", "bob"}[i%5], []string{"cat", "dog"}[i%2]
		one := newTask(t, owner, time.Duration(i)*time.Minute, task.Subject(subject))
		one.Kind = []string{"meal.done", "mail"}[i/30]
		one.Queue = []string{"default", "mails"}[i/15%2]
		if i == 59 {
			one.CreatedAt = t0.Add(time.Hour + time.Millisecond) // after the operations
		}
		tasks = append(tasks, one)
	}
	slices.Reverse(tasks) // ids in another order than due times
	rows := inserted(t, s, tasks...)
	for i := range rows {
		at := t0.Add(time.Minute)
		if i%4 == 1 {
			at = t0.Add(2 * time.Hour)
		}
		switch i % 6 {
		case 1, 3:
			rows[i] = transition.Discard(rows[i], errors.New("enough"), at)
		case 5:
			rows[i] = transition.Finish(rows[i], at)
		default:
			continue
		}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, worldtest.Save(ctx, s, tx, rows[i:i+1]...)) })
	}
	slices.SortFunc(rows, func(a, b task.Task) int { return a.ID.Compare(b.ID) })
	return rows
}

var choices = []task.Filter{
	{All: true},
	{Kind: "mail"},
	{Owner: "ann"},
	{Owner: "ann", Kind: "mail", Queue: "mails"},
	{OwnerPrefix: "an"},
	{OwnerPrefix: "an%"},
	{OwnerPrefix: "a_"},
	{OwnerPrefix: "A"},
	{OwnerPrefix: "ann "},
	{Queue: "mails", Subject: "dog"},
	{DueAfter: t0.Add(10 * time.Minute), DueBefore: t0.Add(40 * time.Minute)},
	{DueAfter: t0.Add(10*time.Minute + time.Microsecond), DueBefore: t0.Add(40*time.Minute + time.Microsecond)},
	{Kind: "none"},
}

// Whatever the filter, and wherever the pages end, the walk comes to each row once that the operation changes or misses.
func operationWalk(t *testing.T, s *store.Store) {
	rows := crowd(t, s)
	for _, verb := range []task.Verb{task.VerbCancel, task.VerbDiscard, task.VerbRequeue} {
		for i, f := range chosen(rows, verb) {
			made := task.Operation{Verb: verb, Filter: f}
			if verb == task.VerbRequeue {
				made.To = "mails"
			}
			o := operation(t, s, made)
			var want []task.ID
			for _, row := range rows {
				since := transition.OperationTooLate(o, row) && verb != task.VerbDiscard && !row.FinishedAt.Before(o.CreatedAt) && row.Queue != o.To
				if transition.OperationMatches(o, row) || since {
					want = append(want, row.ID)
				}
			}
			if i == 0 && len(want) < 10 {
				t.Fatalf("only %d rows match", len(want))
			}
			for _, size := range []struct{ scan, limit int }{{1, 1}, {7, 3}, {3, 7}, {59, 60}, {60, 60}, {100, 100}} {
				store.SetOwnedAhead(s, size.limit+2)
				if d := cmp.Diff(want, walked(t, s, o, size.scan, size.limit)); d != "" {
					t.Errorf("%s, %v, %+v (-want +got):\n%s", verb, f, size, d)
				}
			}
		}
	}
}

// chosen are the choices, lists of ids, and of dead tasks a moment of death.
func chosen(rows []task.Task, verb task.Verb) []task.Filter {
	ids := []task.ID{{1}, {0xff}} // of no task
	for i := 0; i < len(rows); i += 2 {
		ids = append(ids, rows[i].ID)
	}
	all := append(slices.Clone(choices), task.Filter{IDs: ids}, task.Filter{IDs: ids, Owner: "ann", Kind: "mail"})
	if from, _ := verb.From(); from == task.Dead {
		all = append(all, task.Filter{All: true, DiedBefore: t0.Add(2 * time.Hour)},
			task.Filter{Kind: "mail", DiedBefore: t0.Add(2*time.Hour + time.Microsecond)})
	}
	return all
}

func walked(t *testing.T, s *store.Store, o task.Operation, scan, limit int) (all []task.ID) {
	t.Helper()
	for range 200 {
		ids, next, over, err := s.NextIDs(t.Context(), s.DB(), o, scan, limit)
		must(t, err)
		if len(ids) > limit || next.Compare(o.Cursor) < 0 {
			t.Fatalf("a page of %d rows, limit %d, leads from %s to %s", len(ids), limit, o.Cursor, next)
		}
		all, o.Cursor = append(all, ids...), next
		if over {
			return all
		}
	}
	t.Fatal("the walk does not end")
	return nil
}

func operationPreview(t *testing.T, s *store.Store) {
	rows := crowd(t, s)
	for _, verb := range []task.Verb{task.VerbShift, task.VerbRetry} {
		for _, f := range chosen(rows, verb) {
			o := task.Operation{Verb: verb, Filter: f, By: time.Hour, CreatedAt: t0.Add(24 * time.Hour)}
			want := map[task.ID]bool{}
			for _, row := range rows {
				if transition.OperationMatches(o, row) {
					want[row.ID] = true
				}
			}
			if got := value[int64](t)(s.CountMatching(t.Context(), o)); got != int64(len(want)) {
				t.Errorf("%s, %v: %d tasks, want %d", verb, f, got, len(want))
			}
			sample := value[[]task.Task](t)(s.Matching(t.Context(), o, 3))
			sorted := slices.IsSortedFunc(sample, func(a, b task.Task) int { return a.DueAt.Compare(b.DueAt) })
			if len(sample) != min(3, len(want)) || !sorted {
				t.Errorf("%s, %v: the sample is %+v", verb, f, sample)
			}
			for _, row := range sample {
				if !want[row.ID] {
					t.Errorf("%s, %v: the sample has %+v", verb, f, row)
				}
			}
			o.Limit = 2
			first := slices.SortedFunc(maps.Keys(want), task.ID.Compare)
			limited := protocol.IDs(value[[]task.Task](t)(s.Matching(t.Context(), o, 2)))
			slices.SortFunc(limited, task.ID.Compare)
			if !slices.Equal(limited, first[:min(2, len(first))]) {
				t.Errorf("%s, %v: the sample of a limit is %v, of %v", verb, f, limited, first)
			}
		}
	}
}

// A page reads the table in the order of ids, by a range of the primary key; an owner's rows alone by the owner's index.
func TestOperationPlans(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 3000)
	plans := func(f task.Filter) (steps []string) {
		o := operation(t, s, task.Operation{Filter: f})
		o.Cursor = rows[1000].ID
		e := &explainer{DB: s.DB()}
		_, _, _, err := s.NextIDs(t.Context(), e, o, 100, 10)
		must(t, err)
		for _, p := range e.plans {
			steps = append(steps, fmt.Sprint(p.Type.String, " ", p.Key.String, " sorted ", strings.Contains(p.Extra.String, "filesort")))
		}
		return steps
	}
	for _, c := range []struct {
		filter task.Filter
		want   string
	}{
		{task.Filter{Kind: "mail"}, "range PRIMARY sorted false"},
		{task.Filter{OwnerPrefix: "a", Queue: "mails"}, "range PRIMARY sorted false"},
		{task.Filter{Owner: "owner-1"}, "ref duetime_tasks_owner sorted true, range PRIMARY sorted false"},
	} {
		if d := cmp.Diff(c.want, strings.Join(plans(c.filter), ", ")); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.filter, d)
		}
	}
}

// An operation by owner reads the owner's index once for many pages: not once for each.
func TestOperationByOwnerIsLinear(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	rows := filled(t, s, 2000)
	_, err := s.DB().ExecContext(t.Context(), "UPDATE duetime_tasks SET owner = 'ann'")
	must(t, err)
	o := operation(t, s, task.Operation{Filter: task.Filter{Owner: "ann"}})
	e, read, pages := &explainer{DB: s.DB()}, 0, 0
	for over := false; !over; pages++ {
		var ids []task.ID
		e.plans = nil
		ids, o.Cursor, over, err = s.NextIDs(t.Context(), e, o, 2000, 10)
		must(t, err)
		read += len(ids)
		for _, p := range e.plans {
			indexOnly := strings.Contains(p.Extra.String, "Using index;") || strings.HasSuffix(p.Extra.String, "Using index")
			if p.Key.String != "PRIMARY" && (pages > 0 || !indexOnly) {
				t.Fatalf("page %d reads the owner's rows: %+v", pages, p)
			}
		}
	}
	if read != len(rows) {
		t.Errorf("%d rows were read in %d pages, want %d", read, pages, len(rows))
	}
}
