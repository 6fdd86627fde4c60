package api

import (
	"context"
	"errors"
	"slices"
	"strings"

	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// operations is the OperationService.
type operations struct{ *service }

// PreviewOperation counts what an operation would change.
func (s operations) PreviewOperation(
	ctx context.Context, r *v1.PreviewOperationRequest,
) (*v1.PreviewOperationResponse, error) {
	o, err := s.operation(ctx, r.GetOperation())
	if err != nil {
		return nil, inField("operation", err)
	}
	done, err := s.awaitPlace(ctx, true)
	if err != nil {
		return nil, err
	}
	defer done()
	preview, err := s.console.PreviewBulk(ctx, o)
	if err != nil {
		return nil, err
	}
	return &v1.PreviewOperationResponse{Matched: preview.Matched, Sample: messages(preview.Sample, taskMessage)}, nil
}

// BeginOperation makes an operation.
func (s operations) BeginOperation(ctx context.Context, r *v1.BeginOperationRequest) (*v1.BeginOperationResponse, error) {
	o, err := s.operation(ctx, r.GetOperation())
	if err != nil {
		return nil, inField("operation", err)
	}
	begun, err := s.changeOperation(ctx, func(tx *schedule.Tx) (task.Operation, error) { return tx.Bulk(ctx, o) })
	return &v1.BeginOperationResponse{Operation: begun}, err
}

// operation reads an operation within the caller's scope.
func (s operations) operation(ctx context.Context, r *v1.NewOperation) (task.Operation, error) {
	if r == nil {
		return task.Operation{}, &task.FieldError{Field: "verb", Problem: "must be set"}
	}
	o := task.Operation{To: r.GetTo(), Rate: int(r.GetRate()), Matched: r.GetMatched(), Recurrences: r.GetRecurrences()}
	o.Verb = task.Verb(strings.ToLower(strings.TrimPrefix(r.GetVerb().String(), "VERB_")))
	if verbOf(o.Verb) == v1.Verb_VERB_UNSPECIFIED {
		return o, unknownValue("verb", r.GetVerb())
	}
	var err error
	if r.GetOperationId() != "" {
		if o.ID, err = operationID(r.GetOperationId()); err != nil {
			return o, err
		}
	}
	if o.By, err = durationOf("by", r.GetBy()); err != nil {
		return o, err
	}
	if o.Filter, err = filterOf(r.GetFilter()); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, err
	}
	if o.Verb == task.VerbRequeue {
		if err := s.checkQueue(ctx, "to", o.To); err != nil {
			return o, err
		}
	}
	return o, inField("filter", callerOf(ctx).checkFilter(o.Filter))
}

// filterOf reads a filter and checks it, so that errors of its fields name them as such.
func filterOf(f *v1.Filter) (task.Filter, error) {
	out := task.Filter{
		Kind: f.GetKind(), Owner: f.GetOwner(), OwnerPrefix: f.GetOwnerPrefix(), Queue: f.GetQueue(), Subject: f.GetSubject(),
		Labels: f.GetLabels(), All: f.GetAll(), Exclude: exclusionOf(f.GetExclude()),
	}
	var err error
	if out.DueAfter, err = momentOf("due_after", f.GetDueAfter()); err != nil {
		return out, inField("filter", err)
	}
	if out.DueBefore, err = momentOf("due_before", f.GetDueBefore()); err != nil {
		return out, inField("filter", err)
	}
	err = out.Check()
	if wrong, is := errors.AsType[*task.FieldError](err); is && wrong.Field == "filter" { // it is about the filter as a whole
		return out, err
	}
	return out, inField("filter", err)
}

// GetOperation reads an operation.
func (s operations) GetOperation(ctx context.Context, r *v1.GetOperationRequest) (*v1.GetOperationResponse, error) {
	o, err := s.visibleOperation(ctx, r.GetOperationId())
	if err != nil {
		return nil, err
	}
	return &v1.GetOperationResponse{Operation: operationMessage(o)}, nil
}

// visibleOperation reads an operation. One that chooses tasks outside of the caller's scope is not there.
func (s operations) visibleOperation(ctx context.Context, id string) (task.Operation, error) {
	wanted, err := operationID(id)
	if err != nil {
		return task.Operation{}, err
	}
	o, err := s.client.Operation(ctx, wanted)
	if err == nil && callerOf(ctx).checkFilter(o.Filter) != nil {
		err = task.ErrNoOperation
	}
	return o, err
}

func operationID(text string) (task.ID, error) {
	id, err := task.ParseID(text)
	if err != nil || id.IsZero() {
		return id, &task.FieldError{Field: "operation_id", Problem: "must be a UUID of 36 characters, not all 0"}
	}
	return id, nil
}

// ListOperations reads the newest operations that choose no tasks outside of the caller's scope.
func (s operations) ListOperations(ctx context.Context, r *v1.ListOperationsRequest) (*v1.ListOperationsResponse, error) {
	limit, _, err := pageOf(r.GetLimit(), "")
	if err != nil {
		return nil, err
	}
	all, err := s.client.Operations(ctx)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	visible := slices.DeleteFunc(all, func(o task.Operation) bool { return who.checkFilter(o.Filter) != nil })
	visible = visible[:min(len(visible), limit)]
	return &v1.ListOperationsResponse{Operations: messages(visible, operationMessage)}, nil
}

// CancelOperation ends an operation.
func (s operations) CancelOperation(
	ctx context.Context, r *v1.CancelOperationRequest,
) (*v1.CancelOperationResponse, error) {
	o, err := s.visibleOperation(ctx, r.GetOperationId()) // its filter never changes
	if err != nil {
		return nil, err
	}
	ended, err := s.changeOperation(ctx, func(tx *schedule.Tx) (task.Operation, error) { return tx.CancelOperation(ctx, o.ID) })
	return &v1.CancelOperationResponse{Operation: ended}, err
}

func (s operations) changeOperation(
	ctx context.Context, fn func(tx *schedule.Tx) (task.Operation, error),
) (*v1.Operation, error) {
	var changed task.Operation
	err := s.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		changed, err = fn(tx.As(callerOf(ctx).operator()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return operationMessage(changed), nil
}
