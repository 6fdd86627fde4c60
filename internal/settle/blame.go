package settle

import (
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// blame finds out whose fault the error of a call was. It returns nil if the handler failed and the transaction still
// stands. It never judges by the text or type of the handler's error: the handler may have swallowed the error that
// matters, or may have called another server. It asks the transaction whether it still stands.
func (t *transaction) blame(call []*member, cause error) error {
	s := t.settler
	abandoned := errors.Is(cause, errAbandoned)
	if abandoned {
		t.ledger.LeaveBusy()
	}
	switch {
	case t.ctx.Err() != nil:
		return t.ctx.Err() // the worker stops
	case abandoned:
		return t.blameForLoss(call, cause)
	case t.endedEarly:
		for _, h := range t.batch.hints {
			h.CommitUnknown = true // earlier tasks are marked done, and the handler's statement may have committed that
		}
		return t.blameForLoss(call, cause)
	case t.conflict:
		return t.blameUnmarked(cause)
	}
	_, err := s.store.Now(t.ctx, t.tx)
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, errTimeout):
		return t.blameForLoss(call, cause)
	case s.store.Unavailable(err):
		return fmt.Errorf("after a handler's %q: %w", cause.Error(), err)
	case s.store.Retryable(err):
		s.metrics.retried.Inc()
		t.batch.sendAway(collect(call, hintOf)...)
		return errRetryNow
	default: // a context of this handler, or of an earlier one that ignored the error, ended the connection
		if len(t.batch.calledHints()) > len(call) {
			return fmt.Errorf("%w, noticed after a handler's %q: %w", errCountLoss, cause.Error(), err)
		}
		return t.blameForLoss(call, cause)
	}
}

// blameForLoss blames a call that ended the transaction. A single task is charged in the next transaction. Several tasks
// are sent away, because each half could hang too.
func (t *transaction) blameForLoss(call []*member, cause error) error {
	t.batch.careful = true
	if !t.accuse(call, cause) {
		t.batch.sendAway(collect(call, hintOf)...)
	}
	return errRetryNow
}

// blameUnmarked finds out why tasks could not be marked done. If the transaction stands, a handler has changed the rows
// by SQL of its own. It is unknown which handler did, so each task runs by itself, and is charged there.
func (t *transaction) blameUnmarked(cause error) error {
	s := t.settler
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	if _, err := s.store.Now(t.ctx, t.tx); err != nil && (s.store.Unavailable(err) || s.store.Retryable(err)) {
		return err
	}
	if len(t.batch.hints) > 1 {
		s.metrics.retried.Inc()
		return errSplit
	}
	for _, m := range t.members {
		m.hint.Failure = hold.Failure{Err: cause, Version: m.row.Version}
		t.logFailure(m.hint, m.row, cause)
	}
	return errRetryNow
}

// accuse records the failure with the hints that it holds for; false if the call has several tasks and it is unknown
// which failed.
func (t *transaction) accuse(call []*member, cause error) bool {
	_, snooze := errors.AsType[SnoozeError](cause)
	_, discard := errors.AsType[DiscardError](cause)
	if len(call) > 1 && !snooze && !discard {
		return false
	}
	for _, m := range call {
		m.hint.Failure = hold.Failure{Err: cause, Version: m.row.Version}
		if !snooze {
			t.logFailure(m.hint, m.row, cause)
		}
	}
	return true
}

func (t *transaction) logFailure(h *hold.Hint, row task.Task, cause error) {
	attrs := []slog.Attr{
		slog.String("task_id", h.ID.String()), slog.String("kind", row.Kind),
		slog.Int("attempt", row.Attempt), slog.Any("err", cause),
	}
	if p, ok := errors.AsType[panicError](cause); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	t.settler.log.LogAttrs(trace.ContextWithSpanContext(t.ctx, t.span), slog.LevelWarn, "handler failed", attrs...)
}
