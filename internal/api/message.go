package api

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// enumOf is the value of an enum of the API whose name is the prefix and ours.
func enumOf[E ~int32](values map[string]int32, prefix, name string) E {
	return E(values[prefix+strings.ToUpper(name)])
}

func stateOf(s task.State) v1.State { return enumOf[v1.State](v1.State_value, "STATE_", s.String()) }

func outcomeOf(o task.Outcome) v1.Outcome {
	return enumOf[v1.Outcome](v1.Outcome_value, "OUTCOME_", o.String())
}

func verbOf(v task.Verb) v1.Verb { return enumOf[v1.Verb](v1.Verb_value, "VERB_", string(v)) }

func recurrenceState(s task.RecurrenceState) v1.RecurrenceState {
	return enumOf[v1.RecurrenceState](v1.RecurrenceState_value, "RECURRENCE_STATE_", s.String())
}

// messageOf is the message of a row, without labels.
func messageOf(row task.Task) *v1.Task { return taskMessage(console.TaskOf(row)) }

func taskMessage(t console.Task) *v1.Task {
	out := &v1.Task{
		TaskId: t.ID.String(), Kind: t.Kind, Owner: t.Owner, Subject: t.Subject, Labels: t.Labels, Group: t.Group, OrderKey: t.OrderKey,
		Queue: t.Queue,
		State: stateOf(t.State), DueAt: stampMs(&t.DueAtMs), RunAt: stampMs(&t.RunAtMs), Version: t.Version,
		Attempt: int32(t.Attempt), MaxAttempts: int32(t.MaxAttempts), //nolint:gosec // columns of 32 bits
		LastError: t.LastError, CreatedAt: stampMs(&t.CreatedAtMs), UpdatedAt: stampMs(&t.UpdatedAtMs), FinishedAt: stampMs(t.FinishedAt),
	}
	out.Payload, out.PayloadJson = payloadOut(t.PayloadText)
	return out
}

// scheduled is the answer to a spec.
func scheduled(spec task.Spec, row task.Task) *v1.ScheduleResponse {
	return &v1.ScheduleResponse{Task: messageOf(row), Outcome: outcomeOf(spec.Outcome(row))}
}

func recurrenceMessage(r console.Recurrence) *v1.Recurrence {
	out := &v1.Recurrence{
		RecurrenceId: r.ID.String(), Owner: r.Owner, Name: r.Name, State: recurrenceState(r.State), Note: r.Note,
		Timetable: r.Timetable, Policy: policyMessage(r.Policy), Kind: r.Kind, Queue: r.Queue, Subject: r.Subject,
		MaxAttempts: int32(r.MaxAttempts), //nolint:gosec // a column of 32 bits
		DueAt:       stampMs(r.DueAtMs), Made: r.Made, Skipped: r.Skipped, CaughtUp: r.CaughtUp,
		CreatedAt: stampMs(&r.CreatedAtMs), UpdatedAt: stampMs(&r.UpdatedAtMs),
	}
	if r.Newest != nil {
		out.NewestTaskId = r.Newest.String()
	}
	out.Payload, out.PayloadJson = payloadOut(r.PayloadText)
	return out
}

func policyMessage(p recur.Policy) *v1.Policy {
	return &v1.Policy{
		CatchUp: p.CatchUp.String(), Window: lengthOf(p.Window), Overlap: p.Overlap.String(), Jitter: lengthOf(p.Jitter),
		Start: stamp(p.Start), End: stamp(p.End),
		Count:    int32(p.Count),    //nolint:gosec // at most a billion
		Revision: int32(p.Revision), //nolint:gosec // likewise
	}
}

func operationMessage(o task.Operation) *v1.Operation {
	return &v1.Operation{
		OperationId: o.ID.String(), Verb: verbOf(o.Verb), By: lengthOf(o.By), To: o.To, Filter: filterMessage(o.Filter),
		Rate:  int32(o.Rate), //nolint:gosec // at most a million
		State: enumOf[v1.OperationState](v1.OperationState_value, "OPERATION_STATE_", o.State.String()), Matched: o.Matched, Looked: o.Looked, Changed: o.Changed, Ended: o.Ended,
		Unchanged: o.Unchanged, Actor: o.Actor, Error: o.Error, Recurrences: o.Recurrences,
		CreatedAt: stamp(o.CreatedAt), UpdatedAt: stamp(o.UpdatedAt), FinishedAt: stamp(o.FinishedAt),
	}
}

func filterMessage(f task.Filter) *v1.Filter {
	out := &v1.Filter{
		Kind: f.Kind, Owner: f.Owner, OwnerPrefix: f.OwnerPrefix, Queue: f.Queue, Subject: f.Subject,
		DueAfter: stamp(f.DueAfter), DueBefore: stamp(f.DueBefore), Labels: f.Labels, All: f.All,
	}
	if !f.Exclude.IsZero() {
		out.Exclude = &v1.Exclusion{Kinds: f.Exclude.Kinds, Labels: f.Exclude.Labels}
	}
	return out
}

// stamp is absent for the zero time.
func stamp(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

// stampMs is absent for nil. A moment that a message can't hold, as a row of another program may have one, is absent too.
func stampMs(ms *int64) *timestamppb.Timestamp {
	if ms == nil {
		return nil
	}
	at := timestamppb.New(time.UnixMilli(*ms))
	if at.CheckValid() != nil {
		return nil
	}
	return at
}

// lengthOf is absent for 0.
func lengthOf(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
