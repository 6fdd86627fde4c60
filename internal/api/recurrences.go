package api

import (
	"cmp"
	"context"
	"errors"

	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// recurrences is the RecurrenceService.
type recurrences struct{ *service }

// Recur begins or redefines a recurrence.
func (s recurrences) Recur(ctx context.Context, r *v1.RecurRequest) (*v1.RecurResponse, error) {
	kind, err := s.kindOf(ctx, r.GetKind(), r.GetQueue(), r.GetMaxAttempts())
	if err != nil {
		return nil, err
	}
	if err := callerOf(ctx).checkScope(r.GetOwner(), r.GetKind()); err != nil {
		return nil, err
	}
	payload, err := payloadIn(r.GetPayload(), r.GetPayloadJson())
	if err != nil {
		return nil, err
	}
	timetable, err := timetableOf(r.GetTimetable())
	if err != nil {
		return nil, err
	}
	policy, err := policyOf(r.GetPolicy())
	if err != nil {
		return nil, inField("policy", err)
	}
	spec := kind.Recurring(r.GetOwner(), payload, task.Subject(r.GetSubject()))
	var made task.Recurrence
	err = s.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		made, err = callerOf(ctx).scoped(tx).Recur(ctx, r.GetName(), timetable, spec, policy)
		return err
	})
	if err != nil {
		return nil, asSent(r, err)
	}
	return &v1.RecurResponse{Recurrence: recurrenceMessage(console.RecurrenceOf(made))}, nil
}

// timetableOf reads a timetable. An error of a part of it, such as the zone, is one of the timetable.
func timetableOf(text string) (recur.Timetable, error) {
	timetable, err := recur.Parse(text)
	switch wrong, is := errors.AsType[*recur.FieldError](err); {
	case err == nil:
		return timetable, nil
	case is && wrong.Field == "timetable":
		return timetable, &task.FieldError{Field: "timetable", Problem: wrong.Problem}
	}
	return timetable, &task.FieldError{Field: "timetable", Problem: "can't be read: " + err.Error()}
}

func policyOf(p *v1.Policy) (policy recur.Policy, err error) {
	if policy.CatchUp, err = recur.ParseCatchUp(cmp.Or(p.GetCatchUp(), recur.CatchUpLast.String())); err != nil {
		return policy, err
	}
	if policy.Overlap, err = recur.ParseOverlap(cmp.Or(p.GetOverlap(), recur.OverlapSkip.String())); err != nil {
		return policy, err
	}
	if policy.Window, err = durationOf("window", p.GetWindow()); err != nil {
		return policy, err
	}
	if policy.Jitter, err = durationOf("jitter", p.GetJitter()); err != nil {
		return policy, err
	}
	if policy.Start, err = momentOf("start", p.GetStart()); err != nil {
		return policy, err
	}
	if policy.End, err = momentOf("end", p.GetEnd()); err != nil {
		return policy, err
	}
	policy.Count, policy.Revision = int(p.GetCount()), int(p.GetRevision())
	return policy, policy.Check()
}

// ListRecurrences reads a page of recurrences.
func (s recurrences) ListRecurrences(
	ctx context.Context, r *v1.ListRecurrencesRequest,
) (*v1.ListRecurrencesResponse, error) {
	filter := console.RecurrenceFilter{Owner: r.GetOwner(), Kind: r.GetKind()}
	for state := task.RecurrenceActive; state <= task.RecurrenceOver; state++ {
		if recurrenceState(state) == r.GetState() {
			filter.State = &state
		}
	}
	if filter.State == nil && r.GetState() != v1.RecurrenceState_RECURRENCE_STATE_UNSPECIFIED {
		return nil, unknownValue("state", r.GetState())
	}
	var err error
	if filter.Limit, filter.After, err = pageOf(r.GetLimit(), r.GetCursor()); err != nil {
		return nil, err
	}
	if err := callerOf(ctx).checkScope(filter.Owner, filter.Kind); err != nil {
		return nil, err
	}
	done, err := s.awaitPlace(ctx, filter.Owner == "")
	if err != nil {
		return nil, err
	}
	defer done()
	page, err := s.console.Recurrences(ctx, filter)
	if err != nil {
		return nil, err
	}
	out := &v1.ListRecurrencesResponse{Recurrences: messages(page.Recurrences, recurrenceMessage), NextCursor: page.Next}
	if n := len(out.GetRecurrences()); n < len(page.Recurrences) {
		out.NextCursor = page.Recurrences[n-1].Place()
	}
	return out, nil
}

// PauseRecurrence pauses a recurrence.
func (s recurrences) PauseRecurrence(
	ctx context.Context, r *v1.PauseRecurrenceRequest,
) (*v1.PauseRecurrenceResponse, error) {
	paused, err := s.changeRecurrence(ctx, r, func(tx *schedule.Tx) (task.Recurrence, error) {
		return tx.PauseRecurrence(ctx, r.GetOwner(), r.GetName(), r.GetNote())
	})
	return &v1.PauseRecurrenceResponse{Recurrence: paused}, err
}

// ResumeRecurrence ends a pause.
func (s recurrences) ResumeRecurrence(
	ctx context.Context, r *v1.ResumeRecurrenceRequest,
) (*v1.ResumeRecurrenceResponse, error) {
	resumed, err := s.changeRecurrence(ctx, r, func(tx *schedule.Tx) (task.Recurrence, error) {
		return tx.ResumeRecurrence(ctx, r.GetOwner(), r.GetName())
	})
	return &v1.ResumeRecurrenceResponse{Recurrence: resumed}, err
}

// StopRecurrence stops a recurrence.
func (s recurrences) StopRecurrence(
	ctx context.Context, r *v1.StopRecurrenceRequest,
) (*v1.StopRecurrenceResponse, error) {
	stopped, err := s.changeRecurrence(ctx, r, func(tx *schedule.Tx) (task.Recurrence, error) {
		return tx.StopRecurrence(ctx, r.GetOwner(), r.GetName())
	})
	return &v1.StopRecurrenceResponse{Recurrence: stopped}, err
}

// named is a request for a change of a recurrence.
type named interface {
	GetOwner() string
	GetName() string
}

// changeRecurrence makes one change of a recurrence. One whose kind is outside of the caller's scope is not there.
func (s recurrences) changeRecurrence(
	ctx context.Context, r named, fn func(tx *schedule.Tx) (task.Recurrence, error),
) (*v1.Recurrence, error) {
	who := callerOf(ctx)
	if !inScope(who.owners, r.GetOwner()) {
		return nil, who.checkScope(r.GetOwner(), "")
	}
	if err := task.CheckOwner(r.GetOwner()); err != nil {
		return nil, err
	}
	if r.GetName() == "" {
		return nil, &task.FieldError{Field: "name", Problem: "must be set"}
	}
	var changed task.Recurrence
	err := s.client.InTx(ctx, func(tx *schedule.Tx) error {
		stands, err := who.scoped(tx).Recurrence(ctx, r.GetOwner(), r.GetName())
		if err != nil {
			return err
		}
		if !inScope(who.kinds, stands.Kind) {
			return task.ErrNoRecurrence
		}
		if changed, err = fn(tx); err == nil && !inScope(who.kinds, changed.Kind) {
			return task.ErrNoRecurrence // by now it is locked, and somebody has redefined it since it was read
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return recurrenceMessage(console.RecurrenceOf(changed)), nil
}
