package transition_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestOperationsAreChecked(t *testing.T) {
	t.Parallel()
	all, when := task.Filter{All: true}, now
	long := strings.Repeat("x", 65)
	cancel := func(f task.Filter) task.Operation { return task.Operation{Verb: task.VerbCancel, Filter: f} }
	for name, c := range map[string]struct {
		operation task.Operation
		field     string // empty: it is taken
	}{
		"shift":             {task.Operation{Verb: task.VerbShift, By: -2 * time.Hour, Filter: task.Filter{Kind: "a"}}, ""},
		"cancel":            {task.Operation{Verb: task.VerbCancel, Filter: task.Filter{OwnerPrefix: "a%_"}, Rate: 1_000_000}, ""},
		"requeue":           {task.Operation{Verb: task.VerbRequeue, To: "mails", Filter: task.Filter{Subject: "cat"}}, ""},
		"retry":             {task.Operation{Verb: task.VerbRetry, Filter: task.Filter{DueAfter: when}}, ""},
		"discard":           {task.Operation{Verb: task.VerbDiscard, Filter: all}, ""},
		"no verb":           {task.Operation{Filter: all}, "verb"},
		"unknown verb":      {task.Operation{Verb: "move", Filter: all}, "verb"},
		"by nothing":        {task.Operation{Verb: task.VerbShift, Filter: all}, "by"},
		"by half a ms":      {task.Operation{Verb: task.VerbShift, By: 1500 * time.Microsecond, Filter: all}, "by"},
		"by 11 years":       {task.Operation{Verb: task.VerbShift, By: task.MaxAhead + time.Second, Filter: all}, "by"},
		"by -11 years":      {task.Operation{Verb: task.VerbShift, By: -task.MaxAhead - time.Second, Filter: all}, "by"},
		"undo":              {task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: all, Undoes: task.ID{1}}, ""},
		"undo by a cancel":  {task.Operation{Verb: task.VerbCancel, Filter: all, Undoes: task.ID{1}}, "undoes"},
		"with recurrences":  {task.Operation{Verb: task.VerbShift, By: time.Hour, Filter: all, Recurrences: true}, ""},
		"cancel these too":  {task.Operation{Verb: task.VerbCancel, Filter: all, Recurrences: true}, "recurrences"},
		"cancel by":         {task.Operation{Verb: task.VerbCancel, By: time.Hour, Filter: all}, "by"},
		"requeue nowhere":   {task.Operation{Verb: task.VerbRequeue, Filter: all}, "to"},
		"requeue to a blob": {task.Operation{Verb: task.VerbRequeue, To: "a b", Filter: all}, "to"},
		"retry to":          {task.Operation{Verb: task.VerbRetry, To: "mails", Filter: all}, "to"},
		"rate below 0":      {task.Operation{Verb: task.VerbCancel, Rate: -1, Filter: all}, "rate"},
		"rate above":        {task.Operation{Verb: task.VerbCancel, Rate: 1_000_001, Filter: all}, "rate"},
		"matched below 0":   {task.Operation{Verb: task.VerbCancel, Matched: -1, Filter: all}, "matched"},
		"limit below 0":     {task.Operation{Verb: task.VerbRetry, Limit: -1, Filter: all}, "limit"},
		"died before":       {task.Operation{Verb: task.VerbRetry, Limit: 7, Filter: task.Filter{All: true, DiedBefore: when}}, ""},
		"died before alone": {task.Operation{Verb: task.VerbRetry, Filter: task.Filter{DiedBefore: when}}, "filter"},
		"cancel the dead":   {cancel(task.Filter{DiedBefore: when}), "died_before"},
		"ids":               {cancel(task.Filter{IDs: make([]task.ID, task.MaxPerCall)}), ""},
		"too many ids":      {cancel(task.Filter{IDs: make([]task.ID, task.MaxPerCall+1)}), "ids"},
		"all and ids":       {cancel(task.Filter{All: true, IDs: make([]task.ID, 1)}), "all"},
		"no filter":         {task.Operation{Verb: task.VerbCancel}, "filter"},
		"all and a kind":    {task.Operation{Verb: task.VerbCancel, Filter: task.Filter{All: true, Kind: "a"}}, "all"},
		"all but some": {
			cancel(task.Filter{All: true, Exclude: task.Exclusion{Kinds: []string{"a", "b"}, Labels: []string{"event=a=b"}}}), "",
		},
		"nothing but some":  {cancel(task.Filter{Exclude: task.Exclusion{Kinds: []string{"a"}}}), "filter"},
		"but no kind":       {cancel(task.Filter{All: true, Exclude: task.Exclusion{Kinds: []string{""}}}), "exclude.kinds"},
		"but no label":      {cancel(task.Filter{All: true, Exclude: task.Exclusion{Labels: []string{"event"}}}), "exclude.labels"},
		"but no value":      {cancel(task.Filter{All: true, Exclude: task.Exclusion{Labels: []string{"event="}}}), "exclude.labels"},
		"but too many":      {cancel(task.Filter{All: true, Exclude: task.Exclusion{Kinds: make([]string, 101)}}), "exclude"},
		"owner and prefix":  {cancel(task.Filter{Owner: "a", OwnerPrefix: "a"}), "owner_prefix"},
		"due never":         {cancel(task.Filter{DueAfter: when, DueBefore: when}), "due_before"},
		"long kind":         {task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Kind: long}}, "kind"},
		"long owner":        {task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Owner: long}}, "owner"},
		"long prefix":       {task.Operation{Verb: task.VerbCancel, Filter: task.Filter{OwnerPrefix: long}}, "owner_prefix"},
		"owner and blank":   {cancel(task.Filter{Owner: "ann "}), "owner"},
		"blank and subject": {cancel(task.Filter{Subject: " cat"}), "subject"},
		"prefix and blank":  {cancel(task.Filter{OwnerPrefix: "acme "}), ""},
		"bytes":             {task.Operation{Verb: task.VerbCancel, Filter: task.Filter{Subject: "\xff"}}, "subject"},
	} {
		_, err := transition.BeginOperation(c.operation, "ann@host", now)
		var field *task.FieldError
		errors.As(err, &field)
		if (c.field == "") != (err == nil) || c.field != "" && (field == nil || field.Field != c.field) {
			t.Errorf("%s: got %v, want the field %q", name, err, c.field)
		}
	}
}

func TestFilterMatches(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour, task.Subject("cat"))
	for _, c := range []struct {
		filter task.Filter
		want   bool
	}{
		{task.Filter{All: true}, true},
		{task.Filter{Kind: row.Kind, Owner: row.Owner, Queue: row.Queue, Subject: "cat", DueAfter: row.DueAt}, true},
		{task.Filter{OwnerPrefix: row.Owner}, true},
		{task.Filter{OwnerPrefix: row.Owner[:1]}, true},
		{task.Filter{OwnerPrefix: row.Owner + "x"}, false},
		{task.Filter{OwnerPrefix: row.Owner[1:]}, false},
		{task.Filter{Kind: "other"}, false},
		{task.Filter{All: true, Exclude: task.Exclusion{Kinds: []string{"other", row.Kind}}}, false},
		{task.Filter{Owner: row.Owner, Exclude: task.Exclusion{Kinds: []string{"other", row.Kind + "x"}}}, true},
		{task.Filter{Owner: row.Owner + " "}, false},
		{task.Filter{Queue: "other"}, false},
		{task.Filter{Subject: "ca"}, false},
		{task.Filter{DueAfter: row.DueAt.Add(time.Millisecond)}, false},
		{task.Filter{DueBefore: row.DueAt}, false},
		{task.Filter{DueBefore: row.DueAt.Add(time.Millisecond)}, true},
		{task.Filter{IDs: []task.ID{task.NewID(), row.ID}}, true},
		{task.Filter{IDs: []task.ID{task.NewID()}}, false},
		{task.Filter{DiedBefore: now}, true}, // it is not dead
	} {
		if got := transition.FilterMatches(c.filter, row); got != c.want {
			t.Errorf("%+v matches: %v, want %v", c.filter, got, c.want)
		}
	}
}

// A filter is the same after the column that holds it.
func TestFilterIsJSON(t *testing.T) {
	t.Parallel()
	want := task.Filter{Kind: "k", OwnerPrefix: "Zoë", Queue: "q", Subject: "s", DueAfter: now}
	want.DueBefore = now.Add(time.Millisecond)
	want.Exclude = task.Exclusion{Kinds: []string{"l"}, Labels: []string{"event=a=b"}}
	want.IDs, want.DiedBefore = []task.ID{{1}, {2}}, now.Add(time.Second)
	text, err := json.Marshal(want)
	var got task.Filter
	if err := errors.Join(err, json.Unmarshal(text, &got)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("through %s (-want +got):\n%s", text, d)
	}
	if text, err = json.Marshal(task.Filter{All: true}); string(text) != `{"all":true}` || err != nil {
		t.Errorf("all is %s, %v", text, err)
	}
}

func TestFilterInWords(t *testing.T) {
	t.Parallel()
	ids := task.Operation{Verb: task.VerbRetry, Filter: task.Filter{IDs: make([]task.ID, 2), DiedBefore: now}, Limit: 1}
	died := now.Format("2006-01-02T15:04:05.000Z07:00")
	if got, want := ids.String(), "retry, 2 tasks by id, died before "+died+", at most 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (task.Filter{IDs: make([]task.ID, 1)}).String(), "task 00000000-0000-0000-0000-000000000000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f := task.Filter{All: true, Exclude: task.Exclusion{Kinds: []string{"a", "b"}, Labels: []string{"event=c"}}}
	if got, want := f.String(), "all tasks, without kind a, without kind b, without label event=c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	same, other := f, f
	same.Exclude.Kinds, other.Exclude.Kinds = []string{"a", "b"}, []string{"a"}
	if transition.SameFilter(f, other) || !transition.SameFilter(f, same) {
		t.Error("filters are compared without what they leave out")
	}
	for _, other := range []task.Filter{{IDs: make([]task.ID, 1)}, {IDs: make([]task.ID, 2), DiedBefore: now}} {
		if f := (task.Filter{IDs: make([]task.ID, 2)}); transition.SameFilter(f, other) {
			t.Errorf("%v equals %v", f, other)
		}
	}
}

// An operation is about tasks of its verb's state that were made before it.
func TestOperationMatches(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	dead := transition.Discard(row, errBoom, now)
	done := transition.Finish(row, now)
	later := row
	later.CreatedAt = now.Add(time.Millisecond)
	for _, verb := range []task.Verb{task.VerbShift, task.VerbCancel, task.VerbRequeue, task.VerbRetry, task.VerbDiscard} {
		o := task.Operation{Verb: verb, Filter: task.Filter{All: true}, To: "elsewhere", CreatedAt: now}
		of, _ := verb.From()
		for _, c := range []struct {
			name          string
			row           task.Task
			matches, late bool
		}{
			{"pending", row, of == task.Pending, of == task.Dead},
			{"dead", dead, of == task.Dead, of == task.Pending},
			{"done", done, false, true},
			{"later", later, false, false},
		} {
			if got, late := transition.OperationMatches(o, c.row), transition.OperationTooLate(o, c.row); got != c.matches || late != c.late {
				t.Errorf("%s of a %s task: matches %v, late %v; want %v, %v", verb, c.name, got, late, c.matches, c.late)
			}
		}
	}
	there := task.Operation{Verb: task.VerbRequeue, Filter: task.Filter{All: true}, To: row.Queue, CreatedAt: now}
	if transition.OperationMatches(there, row) {
		t.Error("a task is moved to the queue in which it waits")
	}
	for before, want := range map[time.Time]bool{now: false, now.Add(time.Millisecond): true} {
		o := task.Operation{Verb: task.VerbRetry, Filter: task.Filter{DiedBefore: before}, CreatedAt: now}
		if got := transition.OperationMatches(o, dead); got != want {
			t.Errorf("a task that died at %v matches one before %v: %v", now, before, got)
		}
	}
}

func TestOperationApplies(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	dead := transition.Discard(row, errBoom, now)
	for _, c := range []struct {
		operation task.Operation
		row       task.Task
		want      func(task.Task, time.Time) (task.Task, error)
		line      string
	}{
		{
			task.Operation{Verb: task.VerbShift, By: time.Hour},
			row,
			func(r task.Task, at time.Time) (task.Task, error) { return transition.Shift(r, time.Hour, at) },
			"moved by 1h0m0s to " + row.DueAt.Add(time.Hour).Format("2006-01-02T15:04:05.000Z07:00") + ", ",
		},
		{task.Operation{Verb: task.VerbCancel}, row, transition.Cancel, "cancelled "},
		{
			task.Operation{Verb: task.VerbRequeue, To: "mails"},
			row,
			func(r task.Task, at time.Time) (task.Task, error) { return transition.Requeue(r, "mails", at) },
			"requeued from " + row.Queue + " to mails, ",
		},
		{task.Operation{Verb: task.VerbRetry}, dead, transition.Retry, "retried was due " + dead.DueAt.Format("2006-01-02T15:04:05.000Z07:00") + ", was dead after 0 attempts: boom, "},
		{task.Operation{Verb: task.VerbDiscard}, dead, transition.Dismiss, "discarded was dead after 0 attempts: boom, "},
	} {
		c.operation.ID, c.operation.Actor = task.NewID(), "ann@host"
		later := now.Add(time.Minute)
		want, _ := c.want(c.row, later)
		got, err := transition.Apply(c.operation, c.row, later)
		if d := cmp.Diff(want, got); d != "" || err != nil || got.Version == c.row.Version {
			t.Errorf("%s: error %v (-want +got):\n%s", c.operation.Verb, err, d)
		}
		e := transition.OperationEvent(c.operation, c.row, got)
		line := protocol.Event{At: later, Task: c.row.ID, Actor: "ann@host"}
		line.Name, line.Detail, _ = strings.Cut(c.line+"operation "+c.operation.ID.String(), " ")
		if d := cmp.Diff(line, e); d != "" {
			t.Errorf("%s: the line (-want +got):\n%s", c.operation.Verb, d)
		}
	}
	if _, err := transition.Apply((task.Operation{Verb: "move"}), row, now); err == nil {
		t.Error("an unknown verb is applied")
	}
}

// A shift that is over can be undone: by as much back, as far as the row was not changed since the undo began.
func TestUndo(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	shift := task.Operation{
		ID: task.NewID(), Verb: task.VerbShift, By: 2 * time.Hour, Filter: task.Filter{Kind: row.Kind, Owner: row.Owner}, Recurrences: true, Rate: 7,
	}
	for field, o := range map[string]task.Operation{"state": shift, "verb": {Verb: task.VerbCancel, State: task.OperationDone}} {
		_, err := transition.UndoOperation(o)
		if wrong, is := errors.AsType[*task.FieldError](err); !is || wrong.Field != field {
			t.Errorf("%s is undone: %v, want the field %s", o, err, field)
		}
	}
	shift.State = task.OperationCancelled
	undo, err := transition.UndoOperation(shift)
	want := task.Operation{Verb: task.VerbShift, By: -2 * time.Hour, Filter: task.Filter{Owner: row.Owner}, Recurrences: true, Undoes: shift.ID}
	if d := cmp.Diff(want, undo); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if got, want := undo.String(), "shift by -2h0m0s, owner "+row.Owner+", what operation "+shift.ID.String()+" moved"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if other := want; transition.SameOperation(undo, other) {
		if other.Undoes = task.NewID(); transition.SameOperation(undo, other) {
			t.Error("what is undone makes no difference")
		}
	}
	undo, err = transition.BeginOperation(undo, "ann@host", row.UpdatedAt)
	if err != nil || transition.OperationMatches(undo, row) {
		t.Errorf("%v, or a row that was changed since matches", err)
	}
	undo.CreatedAt = row.UpdatedAt.Add(time.Millisecond)
	if !transition.OperationMatches(undo, row) {
		t.Error("a row that was changed before does not match")
	}
}

func TestOperationStates(t *testing.T) {
	t.Parallel()
	o, err := transition.BeginOperation(task.Operation{Verb: task.VerbCancel, Filter: task.Filter{All: true}, Matched: 10}, "ann@host", now)
	if err != nil || o.State != task.OperationRunning || o.Actor != "ann@host" || o.ID.IsZero() || o.Left() != 10 {
		t.Fatalf("begun: %+v, %v", o, err)
	}
	later := now.Add(time.Minute)
	paused, err := transition.ChangeOperation(o, task.OperationPaused, later)
	if err != nil || paused.Over() || !paused.FinishedAt.IsZero() || !paused.UpdatedAt.Equal(later) {
		t.Errorf("paused: %+v, %v", paused, err)
	}
	refused := transition.RefuseOperation(o, errBoom, later)
	if refused.State != task.OperationPaused || refused.Error != "boom" {
		t.Errorf("refused: %+v", refused)
	}
	resumed, err := transition.ChangeOperation(refused, task.OperationRunning, later)
	if err != nil || resumed.State != task.OperationRunning || resumed.Error != "" {
		t.Errorf("resumed: %+v, %v", resumed, err)
	}
	if limited := (task.Operation{Limit: 5, Changed: 3}); transition.Room(o, 9) != 9 || transition.Room(limited, 9) != 2 || transition.Room(limited, 1) != 1 {
		t.Errorf("room for %d, and with a limit for %d and %d", transition.Room(o, 9), transition.Room(limited, 9), transition.Room(limited, 1))
	}
	o.Changed, o.Ended, o.Unchanged = 3, 2, 1
	if o.Left() != 4 {
		t.Errorf("left are %d, want 4", o.Left())
	}
	cancelled, err := transition.ChangeOperation(paused, task.OperationCancelled, later)
	for _, over := range []task.Operation{cancelled, transition.EndOperation(o, later)} {
		if !over.Over() || !over.FinishedAt.Equal(later) || err != nil {
			t.Errorf("over: %+v, %v", over, err)
		}
		got, err := transition.ChangeOperation(over, task.OperationRunning, later.Add(1))
		if !errors.Is(err, task.ErrOperationOver) || got.State != over.State {
			t.Errorf("%v goes on: %+v, %v", over.State, got, err)
		}
	}
}
