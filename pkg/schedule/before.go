package schedule

import (
	"context"
	"fmt"

	"github.com/duetime/duetime/pkg/task"
)

// SpecFunc sees a spec before it is scheduled, whichever way it comes: by Schedule or ScheduleMany, in a transaction or
// without one, as a follow-up in a handler. Of a recurrence it sees the spec of Recur, of which the tasks of all ticks are
// made (task.Spec.IsRecurring). It returns the spec to schedule instead, as it is or changed (task.Spec.With,
// WithPayload, WithWhen), or an error that refuses the call: nothing of the call was changed then. The limits of input, the
// queues of the configuration and the rules for keys hold for what it returns.
//
// ctx is the caller's. After a deadlock InTx runs its function again, which then schedules again, so the SpecFunc must not
// act outside. If it sets ids, it must give the same spec the same id, or a repeated call schedules two tasks. It may be
// called concurrently. What it panics with reaches the caller; in a handler it is the handler's panic. Operators' commands
// and imports don't call it.
type SpecFunc func(ctx context.Context, spec task.Spec) (task.Spec, error)

// apply returns the specs to schedule instead of these.
func (f SpecFunc) apply(ctx context.Context, specs []task.Spec) ([]task.Spec, error) {
	if f == nil {
		return specs, nil
	}
	prepared := make([]task.Spec, len(specs))
	for i, spec := range specs {
		var err error
		if prepared[i], err = f.one(ctx, spec); err != nil {
			return nil, err
		}
	}
	return prepared, nil
}

func (f SpecFunc) one(ctx context.Context, spec task.Spec) (task.Spec, error) {
	if f == nil {
		return spec, nil
	}
	prepared, err := f(ctx, spec)
	if err != nil {
		return task.Spec{}, fmt.Errorf("schedule %s: %w", spec.ID(), err)
	}
	return prepared, nil
}

// schedulePrepared is ScheduleMany for specs that Config.BeforeSchedule has seen.
func (t *Tx) schedulePrepared(ctx context.Context, specs []task.Spec) (rows []task.Task, err error) {
	ctx, specs, end := startSpan(ctx, t.tracer, specs)
	defer func() { end(err) }()
	return t.scheduleMany(ctx, specs, "")
}
