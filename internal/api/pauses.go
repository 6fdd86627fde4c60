package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// pauses is the PauseService. A pause of all owners or kinds is outside of a scope that has some.
type pauses struct{ *service }

// Pause pauses tasks of an owner or a kind until a moment.
func (s pauses) Pause(ctx context.Context, r *v1.PauseRequest) (*v1.PauseResponse, error) {
	who, of := callerOf(ctx), console.PauseOf{Queue: r.GetQueue(), Kind: r.GetKind(), Owner: r.GetOwner()}
	if err := who.checkPause(of); err != nil {
		return nil, err
	}
	end, err := pauseEndOf(r)
	if err != nil {
		return nil, err
	}
	ends, err := s.console.As(who.operator()).PauseUntil(ctx, of, end)
	if err != nil {
		return nil, err
	}
	return &v1.PauseResponse{Until: timestamppb.New(ends)}, nil
}

// Resume ends such a pause.
func (s pauses) Resume(ctx context.Context, r *v1.ResumeRequest) (*v1.ResumeResponse, error) {
	who, of := callerOf(ctx), console.PauseOf{Queue: r.GetQueue(), Kind: r.GetKind(), Owner: r.GetOwner()}
	if err := who.checkPause(of); err != nil {
		return nil, err
	}
	resumed, err := s.console.As(who.operator()).EndPause(ctx, of)
	return &v1.ResumeResponse{Resumed: resumed}, err
}

// checkPause refuses what is outside of the scope, and whole queues, which are an operator's.
func (c caller) checkPause(of console.PauseOf) error {
	if of.Owner == "" && of.Kind == "" {
		return &task.FieldError{Field: "kind", Problem: "or owner must be set: whole queues are paused by operators"}
	}
	return c.checkScope(of.Owner, of.Kind)
}

func pauseEndOf(r *v1.PauseRequest) (task.When, error) {
	switch end := r.GetEnd().(type) {
	case *v1.PauseRequest_Until:
		until, err := momentOf("until", end.Until)
		return task.At(until), err
	case *v1.PauseRequest_Duration:
		length, err := durationOf("duration", end.Duration)
		return task.In(length), err
	}
	return task.When{}, &task.FieldError{Field: "until", Problem: "or duration must be set"}
}

// ListPauses reads a page of the pauses, and leaves out those that the caller does not see.
func (s pauses) ListPauses(ctx context.Context, r *v1.ListPausesRequest) (*v1.ListPausesResponse, error) {
	limit, after, err := pageOf(r.GetLimit(), r.GetCursor())
	if err != nil {
		return nil, err
	}
	all, err := s.console.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b console.Pause) int { return cmp.Compare(placeOf(a), placeOf(b)) })
	who, out := callerOf(ctx), &v1.ListPausesResponse{}
	for _, p := range all {
		switch {
		case placeOf(p) <= after && after != "", !who.sees(p.Owner, p.Kind):
		case len(out.Pauses) == limit:
			last := out.Pauses[limit-1]
			out.NextCursor = placeOf(console.Pause{Queue: last.GetQueue(), Kind: last.GetKind(), Owner: last.GetOwner()})
			return out, nil
		default:
			out.Pauses = append(out.Pauses, pauseMessage(p))
		}
	}
	return out, nil
}

// placeOf orders pauses in lists. None of the names has the separator.
func placeOf(p console.Pause) string { return p.Queue + "\x1f" + p.Kind + "\x1f" + p.Owner }

func pauseMessage(p console.Pause) *v1.Paused {
	return &v1.Paused{
		Owner: p.Owner, Kind: p.Kind, Queue: p.Queue, PausedAt: timestamppb.New(time.UnixMilli(p.SinceMs)), Until: stampMs(p.UntilMs), Actor: p.Actor,
	}
}
