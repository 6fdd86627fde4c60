package settle

import (
	"strings"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// question is all that a verdict depends on.
type question struct {
	hint     *hold.Hint // where to look, and what earlier transactions found out; it is not changed
	row      task.Task  // as locked
	handler  *Handler   // of the row's kind; nil if there is none here
	lockedAt time.Time  // of the statement that locked the row, on the database's clock: it says what is due
	stamp    time.Time  // the moment that a transition bears
	now      time.Time  // the worker's idea of the database's clock, by which hints are held
	patience time.Duration
}

// verdict is what becomes of a hint if its transaction commits.
type verdict struct {
	result  Result    // empty: nothing to count
	settled bool      // else the hint is looked at again
	lookAt  time.Time // when
	lane    hold.Lane // in which lane
	put     bool      // the row's state goes to the index
	far     bool      // settled although the row is pending: it is left to the daemon's look-ahead

	next *task.Task // the row's transition, to be saved; nil for none

	run         bool // the handler is to be called
	payload     any  // with this
	undecodable bool // the payload could not be decoded

	// What the hint remembers whether the transaction commits or not.
	charge  hold.Charge
	failure hold.Failure
}

// decide says what is to become of a hint, by its locked row alone: the hint only told where to look.
func decide(q question) verdict {
	v := verdict{charge: q.hint.Charge, failure: q.hint.Failure}
	switch row := q.row; {
	case row.State != task.Pending:
		v.settle(resultAlreadyDone)
		if q.hint.CommitUnknown && row.State == task.Done {
			v.result = resultDone // by the commit whose answer was lost
		}
		v.put = true // a lost drop may have left it in the index
	case row.Impossible() != nil:
		v.change(row.Discard(row.Impossible(), q.stamp), resultDead)
	case row.RunAt.After(q.lockedAt):
		v.later(q)
	case row.DueAt.After(q.lockedAt):
		v.change(row.Promised(q.stamp), resultEarly)
	case q.handler == nil:
		v.change(row.Await(q.stamp), resultUnknownKind)
	default:
		v.due(q)
	}
	return v
}

// later keeps the hint of a task that isn't due. The task is never put back into the index under the version that the row
// still has: the acknowledgement of the claim that sent the hint may come after and remove it. Only a newer version is put.
func (v *verdict) later(q question) {
	wait := q.row.RunAt.Sub(q.lockedAt)
	switch {
	case task.WindowedVersion(q.row.Version) != task.WindowedVersion(q.hint.Version):
		v.settle(resultStale)
		v.put = true
	case wait > q.patience:
		v.settle(resultEarly)
		v.far = true
	default:
		v.lookLater(q.now.Add(wait), q.hint.Lane)
		v.result = resultEarly
	}
}

// due sorts out what must not run in this transaction.
func (v *verdict) due(q question) {
	kind := q.handler.Info
	if v.failure.Err != nil && v.failure.Version == q.row.Version {
		v.change(chargeFailure(q.row, v.failure.Err, v.charge, kind.Backoff, q.stamp))
		return
	}
	v.failure.Err = nil
	if v.charge.Version == q.row.Version || chargedElsewhere(q.hint, q.row) {
		v.charge.State = hold.Charged
	}
	if exhausted(q.hint, v.charge, q.row) {
		v.change(q.row.Discard(errKilled, q.stamp), resultDead)
		return
	}
	if late, skip := q.row.Late(kind.CatchUpWindow, q.lockedAt); skip {
		v.change(q.row.Skip(late, kind.CatchUpWindow, q.stamp), resultSkipped)
		return
	}
	if l := laneOf(q.hint, v.charge, q.row, q.handler.apart()); l > q.hint.Lane {
		v.lookLater(q.now, l)
		return
	}
	payload, err := q.handler.Decode(q.row)
	if err != nil { // a worker of another version may understand it
		v.failure.Err, v.undecodable = err, true
		v.change(chargeFailure(q.row, err, v.charge, kind.Backoff, q.stamp))
		return
	}
	v.run, v.payload = true, payload
}

func (v *verdict) settle(r Result) { v.result, v.settled = r, true }

func (v *verdict) lookLater(at time.Time, l hold.Lane) { v.lookAt, v.lane = at, l }

// change settles the hint by a transition of the row that needs no handler.
func (v *verdict) change(row task.Task, r Result) {
	v.settle(r)
	v.next, v.put = &row, true
}

// laneOf says where the task belongs. An attempt that was charged here before its handler ran doesn't count as a failure yet.
func laneOf(h *hold.Hint, charge hold.Charge, row task.Task, apart bool) hold.Lane {
	failures := row.Attempt
	if charge.State == hold.Charged {
		failures--
	}
	switch {
	case h.Suspect && (failures > 0 || row.MaxAttempts == 1):
		return hold.LaneSuspect
	case failures > 0:
		return hold.LaneRetry
	case apart:
		return hold.LaneSingle
	default:
		return hold.LaneBatch
	}
}

// exhausted reports whether the task used up its attempts by killing its process: each was charged before its handler ran,
// and none came back to say how it ended. The last attempt is begun twice before that is believed: it may be that each of its
// charges was made by a worker that ended before the handler ran, and could not take the charge back.
func exhausted(h *hold.Hint, charge hold.Charge, row task.Task) bool {
	return h.Suspect && charge.State != hold.Charged && row.Attempt >= row.MaxAttempts && strings.HasPrefix(row.LastError, lastBegun)
}

// chargedElsewhere reports whether a worker that left in good order charged the task's last attempt before its handler ran,
// and then neither ran it nor took the charge back.
func chargedElsewhere(h *hold.Hint, row task.Task) bool {
	return !h.Suspect && row.Attempt >= row.MaxAttempts
}
