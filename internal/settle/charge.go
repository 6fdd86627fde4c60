package settle

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Only this file charges and refunds attempts while tasks are settled: a failure is charged, a suspect is charged before its
// handler runs, and such a charge is refunded if the handler did not run to an end. A task that moves itself begins its
// attempts anew, as by an operator's retry (transition.Retry).

// chargeFailure returns the transition for a handler's error.
func chargeFailure(row task.Task, failure error, charge hold.Charge, backoff task.Backoff, now time.Time) (task.Task, Result) {
	charged := charge.State == hold.Charged
	snooze, snoozed := errors.AsType[SnoozeError](failure)
	discard, discarded := errors.AsType[DiscardError](failure)
	switch {
	case snoozed:
		row, begun := cutBegun(row)
		if charged && !begun {
			row.Attempt--
		}
		if snooze.PausesKey {
			until := now.Add(min(snooze.Delay, protocol.MaxPause)).Add(time.Second - time.Millisecond).Truncate(time.Second) // one end for many answers
			return transition.RearmPaused(row, until, now), resultSnoozed
		}
		return transition.Rearm(row, snooze.Delay, now), resultSnoozed
	case discarded:
		if !charged {
			row.Attempt++
		}
		row = transition.Discard(row, discard.Cause, now)
	case charged:
		row = transition.AfterCharge(row, failure, transition.RetryDelay(backoff, row.Attempt), now)
	default:
		row = transition.Fail(row, failure, transition.RetryDelay(backoff, row.Attempt+1), now)
	}
	if row.State == task.Dead {
		return row, resultDead
	}
	return row, resultFailed
}

// chargeSuspects charges an attempt, in a transaction of its own, to each suspect that is about to run: if the suspect
// ends the process, the charge stands.
func (t *transaction) chargeSuspects() error {
	var suspects []*member
	for _, m := range t.members {
		if m.stage == stageWaiting && m.hint.Suspect && m.hint.Charge.State != hold.Charged {
			suspects = append(suspects, m)
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	sortByID(suspects)
	for _, m := range suspects {
		m.row = chargeBeforehand(m.row, t.settler.cfg.Holder, t.stamp())
	}
	if err := t.save(suspects...); err != nil {
		return err
	}
	for _, m := range suspects { // before the commit, whose answer may be lost
		m.hint.Charge = hold.Charge{State: hold.ChargeSent, Version: m.row.Version}
	}
	t.prepared = func() {
		for _, m := range suspects {
			m.hint.Charge.State = hold.Charged
		}
	}
	return errPrepared
}

// The last error of a suspect whose last attempt was begun once more: which worker began it, and the error before.
const (
	lastBegun     = "last attempt begun once more, not answered yet, by worker "
	errBefore     = "; before that: "
	maxErrorBytes = 800 // of the error before: the column has room for 1024
)

// chargeBeforehand charges an attempt to a suspect. If its attempts are used up, the last one is begun once more,
// uncharged.
func chargeBeforehand(row task.Task, holder string, now time.Time) task.Task {
	if row.Attempt >= row.MaxAttempts {
		before := strings.ToValidUTF8(row.LastError[:min(len(row.LastError), maxErrorBytes)], "")
		row.LastError = lastBegun + holder + errBefore + before
		row.Attempt--
	}
	return transition.Charge(row, now)
}

// begunOnceMore reports whether the row's last attempt was begun once more, and no handler answered.
func begunOnceMore(row task.Task) bool { return strings.HasPrefix(row.LastError, lastBegun) }

// cutBegun returns the row with the error of before its last attempt was begun once more, and whether it was.
func cutBegun(row task.Task) (task.Task, bool) {
	begun := begunOnceMore(row)
	if begun {
		_, row.LastError, _ = strings.Cut(row.LastError, errBefore)
	}
	return row, begun
}

// refund undoes chargeBeforehand.
func refund(row task.Task, now time.Time) task.Task {
	row, begun := cutBegun(row)
	if begun {
		row.Attempt++ // beginning the last attempt once more was no charge
	}
	return transition.Refund(row, now)
}

// renew begins the attempts of a row anew, whose handler has answered.
func renew(row task.Task) task.Task {
	row, _ = cutBegun(row)
	row.Attempt, row.TriedAt = 0, row.UpdatedAt
	return row
}

// refundUnrun refunds the charges of suspects that do not run in this transaction. Their rows will be free until their turn
// comes: another worker that has found one of them would charge it as well.
func (t *transaction) refundUnrun(unrun []*member) error {
	for _, m := range unrun {
		m.row = refund(m.row, t.stamp())
		m.verdict.refunded, m.verdict.put = true, true
	}
	return t.save(unrun...)
}

const (
	refundTimeout  = 500 * time.Millisecond // a stopping worker has no more time
	refundInterval = 10 * time.Millisecond  // between tries to lock rows
)

// Refund refunds attempts that were charged beforehand to hints that did not run to an end here, because the worker
// stops or lost their partition: no handler failed. It ends after half a second; a charge that stays costs the task one
// attempt. A cancelled handler's transaction is rolled back concurrently, so its rows may be locked a moment longer:
// Refund tries to lock them several times.
func (s *Settler) Refund(hints []*hold.Hint) {
	charged := map[task.ID]int64{}
	for _, h := range hints {
		if h.Charge.State == hold.Charged && !h.CommitUnknown {
			charged[h.ID] = h.Charge.Version
		}
	}
	if len(charged) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), refundTimeout)
	defer cancel()
	for len(charged) > 0 {
		err := s.refundRows(ctx, charged)
		if err == nil && len(charged) > 0 {
			loop.Sleep(ctx, refundInterval)
			err = ctx.Err()
		}
		if err != nil {
			s.log.WarnContext(ctx, "attempts not given back", slog.Int("n", len(charged)), slog.Any("err", err))
			return
		}
	}
}

// refundRows refunds the charges of the rows that are free, and leaves the others in charged.
func (s *Settler) refundRows(ctx context.Context, charged map[task.ID]int64) error {
	var rows []task.Task
	tx, err := ledger.Transact(ctx, s.store, s.cfg.Hooks, func(began *sqlx.Tx) (tx *ledger.Tx, err error) {
		tx = ledger.NewTx(began, s.store, protocol.ActorWorker)
		var now time.Time
		if rows, now, err = s.store.LockFree(ctx, began, slices.Collect(maps.Keys(charged))); err != nil {
			return tx, err
		}
		var refunded []transition.Change
		for _, row := range rows {
			if row.State == task.Pending && row.Version == charged[row.ID] {
				refunded = append(refunded, transition.Change{Before: row, After: refund(row, now)})
			}
		}
		if len(refunded) == 0 {
			return tx, nil
		}
		return tx, tx.Save(ctx, refunded, nil)
	})
	if err != nil {
		return err
	}
	s.follow(tx)
	for _, row := range rows {
		delete(charged, row.ID)
	}
	return nil
}
