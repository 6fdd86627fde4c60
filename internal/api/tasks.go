package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/rowform"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// tasks is the TaskService, but for Watch.
type tasks struct{ *service }

// Schedule makes a task, or finds the one that has its key.
func (s tasks) Schedule(ctx context.Context, r *v1.ScheduleRequest) (*v1.ScheduleResponse, error) {
	if r.GetTask() == nil {
		return nil, &task.FieldError{Field: "task", Problem: "must be set"}
	}
	spec, err := s.spec(ctx, callerOf(ctx), r.GetTask())
	if err != nil {
		return nil, inField("task", err)
	}
	var row task.Task
	if spec.Mode() != rowform.Unkeyed || len(spec.Labels()) > 0 {
		row, err = s.scheduleOne(ctx, spec)
	} else if row, err = s.client.Schedule(ctx, spec); err == nil { // shares its statement with other calls
		err = checkTaken(spec, row)
	}
	if err != nil {
		return nil, inField("task", err)
	}
	return scheduled(spec, row), nil
}

// scheduleOne schedules a task that has a key or labels.
func (s tasks) scheduleOne(ctx context.Context, spec task.Spec) (row task.Task, err error) {
	err = s.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		if row, err = tx.As(callerOf(ctx).actor()).Schedule(ctx, spec); err == nil {
			err = checkTaken(spec, row)
		}
		return err
	})
	return row, err
}

// ScheduleMany makes many tasks, or none. Lines of the history about tasks that it moves or replaces bear the caller's name.
func (s tasks) ScheduleMany(ctx context.Context, r *v1.ScheduleManyRequest) (*v1.ScheduleManyResponse, error) {
	if n := len(r.GetTasks()); n < 1 || n > task.MaxPerCall {
		return nil, &task.FieldError{Field: "tasks", Problem: fmt.Sprintf("must be 1 to %d, and are %d", task.MaxPerCall, n)}
	}
	specs := make([]task.Spec, len(r.GetTasks()))
	for i, t := range r.GetTasks() {
		var err error
		if specs[i], err = s.spec(ctx, callerOf(ctx), t); err != nil {
			return nil, inTask(i, err)
		}
	}
	var results []*v1.ScheduleResponse
	err := s.client.InTx(ctx, func(tx *schedule.Tx) error {
		rows, err := tx.As(callerOf(ctx).actor()).ScheduleMany(ctx, specs)
		if err != nil {
			return err
		}
		results = make([]*v1.ScheduleResponse, len(rows))
		for i, row := range rows {
			if err := checkTaken(specs[i], row); err != nil {
				return inTask(i, err)
			}
			results[i] = scheduled(specs[i], row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	withoutPayloads(results)
	return &v1.ScheduleManyResponse{Results: results}, nil
}

func inTask(i int, err error) error { return inField(fmt.Sprintf("tasks[%d]", i), err) }

// checkTaken refuses an id that another owner's task has, one of another kind, or one with another payload; and a key of a call that
// was made with another payload. The caller must not see the task of the first two, and would take the others for the one that
// it wanted.
func checkTaken(spec task.Spec, row task.Task) error {
	if row.Owner != spec.Owner() || row.Kind != spec.Kind().Name {
		return errIDTaken
	}
	if row.ID == spec.ID() && !mayBeReplaced(spec, row) && !bytes.Equal(row.Payload, spec.Payload()) {
		return errIDTaken
	}
	if spec.Mode() == rowform.OnceOnly && !bytes.Equal(row.Payload, spec.Payload()) {
		return errCallKeyTaken
	}
	return nil
}

// mayBeReplaced reports whether a later spec with the task's key may have given the row another payload.
func mayBeReplaced(spec task.Spec, row task.Task) bool {
	switch spec.Mode() {
	case rowform.KeepPending, rowform.MovePending, rowform.ReplacePending:
		return row.Version > 1
	default:
		return false
	}
}

// Get reads a task with its labels.
func (s tasks) Get(ctx context.Context, r *v1.GetRequest) (*v1.GetResponse, error) {
	row, err := s.visible(ctx, r.GetTaskId())
	if err != nil {
		return nil, err
	}
	labels, err := s.console.Labels(ctx, []task.ID{row.ID})
	if err != nil {
		return nil, err
	}
	t := messageOf(row)
	t.Labels = labels[row.ID]
	return &v1.GetResponse{Task: t}, nil
}

// visible reads a task. One outside of the caller's scope is not there.
func (s *service) visible(ctx context.Context, taskID string) (task.Task, error) {
	id, err := task.ParseID(taskID)
	if err != nil {
		return task.Task{}, err
	}
	row, err := s.client.Get(ctx, id)
	if err == nil && !callerOf(ctx).sees(row.Owner, row.Kind) {
		err = task.ErrNotFound
	}
	return row, err
}

// changeable is the id of a task that the caller may change. Owner and kind of a task never change, so a caller without a scope
// needs no look at it.
func (s *service) changeable(ctx context.Context, taskID string) (task.ID, error) {
	if !callerOf(ctx).isScoped() {
		return task.ParseID(taskID)
	}
	row, err := s.visible(ctx, taskID)
	return row.ID, err
}

// List reads a page of tasks.
func (s tasks) List(ctx context.Context, r *v1.ListRequest) (*v1.ListResponse, error) {
	filter, err := listOf(r)
	if err != nil {
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
	page, err := s.console.ListBounded(ctx, filter)
	if err != nil {
		return nil, err
	}
	out := &v1.ListResponse{Tasks: messages(page.Tasks, taskMessage), NextCursor: page.Next}
	if n := len(out.GetTasks()); n < len(page.Tasks) {
		out.NextCursor = page.Place(n)
	}
	return out, nil
}

// Reschedule gives a pending task another due time.
func (s tasks) Reschedule(ctx context.Context, r *v1.RescheduleRequest) (*v1.RescheduleResponse, error) {
	when, err := dueOf(r.GetDueAt(), r.GetDueIn())
	if err != nil {
		return nil, err
	}
	t, err := s.change(ctx, r, func(tx *schedule.Tx, id task.ID) (task.Task, error) { return tx.Reschedule(ctx, id, when) })
	return &v1.RescheduleResponse{Task: t}, err
}

// Shift moves the due time of a pending task.
func (s tasks) Shift(ctx context.Context, r *v1.ShiftRequest) (*v1.ShiftResponse, error) {
	if r.GetBy() == nil {
		return nil, &task.FieldError{Field: "by", Problem: "must be set"}
	}
	by, err := durationOf("by", r.GetBy())
	if err != nil {
		return nil, err
	}
	conditions, err := soon(r.GetDueWithin())
	if err != nil {
		return nil, err
	}
	t, err := s.change(ctx, r, func(tx *schedule.Tx, id task.ID) (task.Task, error) { return tx.Shift(ctx, id, by, conditions...) })
	if tooFar, is := errors.AsType[*task.FieldError](err); is && tooFar.Field == "due" {
		err = &task.FieldError{Field: "by", Problem: "must leave a due time that lies" + strings.TrimPrefix(tooFar.Problem, "must lie")}
	}
	return &v1.ShiftResponse{Task: t}, err
}

// soon has a task changed only if it is due within a time, and not yet; an absent time is no condition.
func soon(within *durationpb.Duration) ([]schedule.Condition, error) {
	if within == nil {
		return nil, nil
	}
	d, err := durationOf("due_within", within)
	if err == nil && d <= 0 {
		err = &task.FieldError{Field: "due_within", Problem: "must be above 0"}
	}
	notDue := func(t task.Task, now time.Time) error {
		if !t.DueAt.After(now) {
			return task.ErrDue
		}
		return nil
	}
	return []schedule.Condition{notDue, schedule.IfDueWithin(d)}, err
}

// Cancel takes a pending task back.
func (s tasks) Cancel(ctx context.Context, r *v1.CancelRequest) (*v1.CancelResponse, error) {
	t, err := s.change(ctx, r, func(tx *schedule.Tx, id task.ID) (task.Task, error) { return tx.Cancel(ctx, id) })
	return &v1.CancelResponse{Task: t}, err
}

// versioned is a request for a change of a task.
type versioned interface {
	GetTaskId() string
	GetVersion() int64
}

// change makes one change of a task, if its version is the one that the caller has seen. The row is locked before the versions
// are compared: a change in between can't slip through. The change is rolled back if they differ.
func (s *service) change(
	ctx context.Context, r versioned, fn func(tx *schedule.Tx, id task.ID) (task.Task, error),
) (*v1.Task, error) {
	seen, err := versionOf(r.GetVersion())
	if err != nil {
		return nil, err
	}
	id, err := s.changeable(ctx, r.GetTaskId())
	if err != nil {
		return nil, err
	}
	var changed task.Task
	err = s.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		changed, err = fn(tx.As(callerOf(ctx).actor()), id)
		if stands := changed.Version - 1; err == nil && seen > 0 && stands != seen {
			return staleError{seen, stands}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return messageOf(changed), nil
}

// Retry makes a dead task pending again.
func (s tasks) Retry(ctx context.Context, r *v1.RetryRequest) (*v1.RetryResponse, error) {
	seen, err := versionOf(r.GetVersion())
	if err != nil {
		return nil, err
	}
	id, err := s.changeable(ctx, r.GetTaskId())
	if err != nil {
		return nil, err
	}
	t, err := s.console.As(callerOf(ctx).operator()).Retry(ctx, id, seen)
	if stale, is := errors.AsType[interface {
		error
		Stands() int64
	}](err); is {
		err = staleError{seen, stale.Stands()}
	}
	if err != nil {
		return nil, err
	}
	return &v1.RetryResponse{Task: taskMessage(t)}, nil
}
