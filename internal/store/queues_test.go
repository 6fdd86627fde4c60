package store_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// Queues that operators add, hold and retire, and what uses them.
func addedQueues(t *testing.T, s *store.Store) {
	ctx := t.Context()
	now := value[time.Time](t)(s.Now(ctx, nil))
	for _, want := range []bool{true, false} {
		if got := value[bool](t)(s.AddQueue(ctx, s.DB(), "pushes", now)); got != want {
			t.Errorf("added %v, want %v", got, want)
		}
	}
	value[bool](t)(s.AddQueue(ctx, s.DB(), "calls", now))
	stand := func(want ...string) {
		t.Helper()
		if got := value[[]string](t)(s.Queues(ctx)); !slices.Equal(got, want) {
			t.Errorf("queues %v, want %v", got, want)
		}
	}
	stand("calls", "pushes")
	for queue, want := range map[string]bool{"pushes": true, "Pushes": false, "mails": false} {
		if got := value[bool](t)(s.HoldQueue(ctx, s.DB(), queue)); got != want {
			t.Errorf("hold %s: %v, want %v", queue, got, want)
		}
	}
	if paused := value[map[string]time.Time](t)(s.Paused(ctx)); len(paused) > 0 {
		t.Errorf("paused: %v", paused)
	}

	value[bool](t)(s.Pause(ctx, s.DB(), "pushes", now, time.Time{}))
	value[bool](t)(s.Pause(ctx, s.DB(), "calls", now, time.Time{}))
	must(t, s.PutPauses(ctx, s.DB(), []protocol.Pause{
		{PauseOf: protocol.PauseOf{Queue: "pushes", Owner: "ann"}, Until: now.Add(time.Hour), Made: now},
		{PauseOf: protocol.PauseOf{Owner: "ann"}, Until: now.Add(time.Hour), Made: now},
	}))
	for _, queue := range []string{"pushes", "calls"} {
		must(t, s.SetRate(ctx, s.DB(), queue, &task.Rate{Calls: 1, Per: time.Second}))
	}
	must(t, s.ForgetQueue(ctx, s.DB(), "pushes"))
	stand("calls")
	pauses := value[[]protocol.Pause](t)(s.Pauses(ctx))
	if len(pauses) != 2 || slices.ContainsFunc(pauses, func(p protocol.Pause) bool { return p.Queue == "pushes" }) {
		t.Errorf("pauses after: %v", pauses)
	}
	if left := value[map[string]any](t)(limitNames(ctx, s)); len(left) != 1 {
		t.Errorf("limits after: %v", left)
	}
}

func limitNames(ctx context.Context, s *store.Store) (map[string]any, error) {
	all, err := s.Limits(ctx)
	names := map[string]any{}
	for name := range all {
		names[name] = nil
	}
	return names, err
}

// Each use of a queue counts, and what is over does not.
func queueUses(t *testing.T, s *store.Store) {
	ctx := t.Context()
	now := value[time.Time](t)(s.Now(ctx, nil))
	if uses := value[protocol.QueueUses](t)(s.QueueUses(ctx, s.DB(), "pushes")); uses != (protocol.QueueUses{}) {
		t.Errorf("unused: %v", uses)
	}
	rows := newTasks(t, 5)
	for i, state := range []task.State{task.Pending, task.Pending, task.Dead, task.Done, task.Cancelled} {
		rows[i].Queue = "pushes"
		inserted(t, s, rows[i])
		if state != task.Pending {
			_, err := s.DB().ExecContext(ctx, "UPDATE duetime_tasks SET state = ? WHERE id = ?", int8(state), rows[i].ID[:])
			must(t, err)
		}
	}
	inserted(t, s, newTasks(t, 1)...)
	for i, state := range []task.RecurrenceState{task.RecurrenceActive, task.RecurrencePaused, task.RecurrenceStopped, task.RecurrenceOver} {
		r := newRecurrence(t, "ann", string(rune('a'+i)))
		r.Queue, r.State = "pushes", state
		must(t, s.InsertRecurrence(ctx, s.DB(), r))
	}
	for _, of := range []struct{ name, queue, subject string }{{"one", "pushes", ""}, {"other", "mails", "pushes"}} {
		text, err := json.Marshal(group.Follower{ID: task.NewID(), Kind: "k", Owner: "ann", Subject: of.subject, Queue: of.queue, Payload: []byte("{}")})
		must(t, err)
		value[bool](t)(s.InsertGroup(ctx, s.DB(), group.Row{Group: task.Group{Name: of.name, FollowerID: task.NewID(), CreatedAt: now}, Follower: text}))
	}
	for _, state := range []task.OperationState{task.OperationRunning, task.OperationPaused, task.OperationCancelled, task.OperationDone} {
		value[bool](t)(s.InsertOperation(ctx, s.DB(), task.Operation{
			ID: task.NewID(), Verb: task.VerbRequeue, To: "pushes", Filter: task.Filter{Kind: "k"}, State: state, CreatedAt: now, UpdatedAt: now,
		}))
	}
	for _, id := range []string{"lives", "ended"} {
		p := store.Process{ID: id, Role: "worker", Detail: store.ProcessDetail{Queues: []string{"mails", "pushes"}}}
		must(t, s.ReportProcess(ctx, p, time.Second))
		if id == "ended" {
			must(t, s.EndProcess(ctx, p))
		}
	}
	want := protocol.QueueUses{Processes: 1, Operations: 2, Groups: 1, Recurrences: 2, Pending: 2, Dead: 1}
	if d := cmp.Diff(want, value[protocol.QueueUses](t)(s.QueueUses(ctx, s.DB(), "pushes"))); d != "" {
		t.Errorf("uses (-want +got):\n%s", d)
	}
	const text = "2 pending tasks, 1 dead task, 2 recurrences, 1 open group, 2 operations, 1 living process"
	if got := want.String(); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}
