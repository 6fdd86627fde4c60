package worker

import (
	"context"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// A handler may change the recurrence whose task it runs: the task itself goes on to its end.

// Recur makes tasks by a timetable, as schedule.Tx does.
func (t *Tx) Recur(ctx context.Context, name string, when recur.Timetable, spec task.Spec, policy recur.Policy) (task.Recurrence, error) {
	prepared, err := t.call.Prepare(ctx, []task.Spec{spec})
	if err != nil {
		return task.Recurrence{}, err
	}
	return onTasks(ctx, t, func(ctx context.Context) (task.Recurrence, error) {
		return t.call.Changes().Recur(ctx, name, when, prepared[0], policy)
	})
}

// Recurrence reads an active or paused recurrence, as schedule.Tx does.
func (t *Tx) Recurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Recurrence, error) {
		return t.call.Changes().Recurrence(ctx, owner, name)
	})
}

// Recurrences reads the owner's active and paused recurrences, as schedule.Tx does.
func (t *Tx) Recurrences(ctx context.Context, owner string) ([]task.Recurrence, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Recurrence, error) { return t.call.Changes().Recurrences(ctx, owner) })
}

// PauseRecurrence pauses a recurrence, as schedule.Tx does.
func (t *Tx) PauseRecurrence(ctx context.Context, owner, name, note string) (task.Recurrence, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Recurrence, error) {
		return t.call.Changes().PauseRecurrence(ctx, owner, name, note)
	})
}

// ResumeRecurrence ends the pause of a recurrence, as schedule.Tx does.
func (t *Tx) ResumeRecurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Recurrence, error) {
		return t.call.Changes().ResumeRecurrence(ctx, owner, name)
	})
}

// RunRecurrence makes a task beside those of the timetable, as schedule.Tx does.
func (t *Tx) RunRecurrence(ctx context.Context, owner, name string) (task.Task, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Task, error) { return t.call.Changes().RunRecurrence(ctx, owner, name) })
}

// StopRecurrence stops a recurrence, as schedule.Tx does.
func (t *Tx) StopRecurrence(ctx context.Context, owner, name string) (task.Recurrence, error) {
	return onTasks(ctx, t, func(ctx context.Context) (task.Recurrence, error) {
		return t.call.Changes().StopRecurrence(ctx, owner, name)
	})
}

// StopRecurrences stops all recurrences of the owner, as schedule.Tx does.
func (t *Tx) StopRecurrences(ctx context.Context, owner string) ([]task.Recurrence, error) {
	return onTasks(ctx, t, func(ctx context.Context) ([]task.Recurrence, error) {
		return t.call.Changes().StopRecurrences(ctx, owner)
	})
}
