package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// abandonAfter is how long a handler may go on after its context ended.
const abandonAfter = 500 * time.Millisecond

// call runs one handler for the members, and takes note of the tasks that it changed.
func (t *try) call(call []*member) error {
	ctx, cancel := context.WithTimeoutCause(t.ctx, t.HandlerTimeout, fmt.Errorf("%w of %v", errTimeout, t.HandlerTimeout))
	defer cancel()
	ctx, end := t.traced(ctx, call)
	tx, mark := &Tx{ctx: ctx, try: t, call: call}, t.changes.Mark()
	t.changes.Renew(idsOf(call)) // a handler that moves its own task has succeeded
	t.called = true
	for _, m := range call {
		m.hint.Call.Version, m.hint.Call.Outside = m.row.Version, m.handler.form == formOutside
	}
	started := time.Now()
	err := t.invoke(ctx, call[0].row.Kind, func() error { return call[0].handler.call(ctx, tx, call) })
	took := time.Since(started)
	t.spent += took
	end(err)
	call[0].handler.slow.Store(len(call) == 1 && took >= t.BatchTime)
	tx.close()
	if errors.Is(err, errAbandoned) {
		return err // it may still be busy with the transaction
	}
	if !t.stands() {
		t.overEarly = true
		return errors.Join(errEnded, err)
	}
	if err == nil {
		err = t.changes.Err() // passed over by the handler
	}
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("%w of %v: %w", errTimeout, t.HandlerTimeout, err)
		}
		return err
	}
	for _, m := range call {
		m.state, m.outcome = stateRan, outcome{result: resultDone, settled: true}
	}
	t.wrote = true
	for _, changed := range t.changes.TouchedSince(mark) {
		t.note(changed)
	}
	return nil
}

func idsOf(ms []*member) []task.ID {
	ids := make([]task.ID, len(ms))
	for i, m := range ms {
		ids[i] = m.row.ID
	}
	return ids
}

// note remembers a task that a handler changed. A member that was changed leaves the run, if its turn has not come, and
// the marking in any case: one that moved itself stays pending, at its new time.
func (t *try) note(changed task.Task) {
	t.touched[changed.ID] = changed
	m := t.members[changed.ID]
	if m == nil || changed.Version == m.row.Version {
		return
	}
	switch m.state {
	case stateWaiting:
		m.state, m.outcome = stateSettled, outcome{result: resultStale, settled: true}
		if changed.State != task.Pending {
			m.outcome.result = resultAlreadyDone
		}
	case stateRan:
		m.state = stateSettled // its outcome stays done
	case stateSettled, stateMarked:
	}
}

// invoke runs fn on a goroutine of its own, so that one which ignores the end of ctx can be left behind.
func (w *Worker) invoke(ctx context.Context, kind string, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() {
			if v := recover(); v != nil {
				err = panicError{value: v, stack: debug.Stack()}
			}
			done <- err
		}()
		err = fn()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(abandonAfter)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		w.abandon(ctx, kind)
		go func() {
			w.Logger.InfoContext(ctx, "abandoned handler came back", slog.String("kind", kind), slog.Any("err", <-done))
			w.abandoned.Add(-1)
		}()
		return errAbandoned
	}
}
