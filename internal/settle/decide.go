package settle

import (
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// facts are all that a verdict depends on.
type facts struct {
	hint     *hold.Hint // has the findings of earlier transactions; decide does not change it
	row      task.Task  // as locked
	bar      protocol.Bar
	paused   time.Time // when the last pause ends that the row is one of; zero: none
	handler  *Handler  // of the row's kind; nil if there is none here
	lockedAt time.Time // when the row was locked, on the database's clock: decides what is due
	stamp    time.Time // the time of a transition
	now      time.Time // the database's time as the worker's clock tells it, by which hints are held
	patience time.Duration
	runsLate bool // also a task that is too late to be caught up with
}

// verdict is what becomes of a hint if its transaction commits.
type verdict struct {
	result  Result // empty: nothing to count
	settled bool   // false: the hint is held until lookAt
	lookAt  time.Time
	lane    hold.Lane // while the hint is held
	put     bool      // the row's state goes to the index
	// refunded says that the attempt that was charged beforehand is taken back, because the task does not run.
	refunded bool
	// elsewhere says that another worker is about to run the task, or to charge it, and must find its row free.
	elsewhere bool
	behind    task.ID // the earlier task of its order key that the hint is held for; zero for none
	far       bool    // settled although the row is pending: the daemon's look-ahead puts it

	next *task.Task // the row's transition, to be saved; nil for none

	run bool // the handler is to be called

	// The hint keeps these even if the transaction does not commit.
	charge  hold.Charge
	failure hold.Failure
}

// decide finds the verdict by the locked row: the hint only says where to look.
func decide(f facts) verdict {
	v := verdict{charge: f.hint.Charge, failure: f.hint.Failure}
	switch row := f.row; {
	case row.State != task.Pending:
		v.settle(resultAlreadyDone)
		if f.hint.CommitUnknown && row.State == task.Done {
			v.result = resultDone // the commit whose answer was lost has taken effect
		}
		v.put = true // a lost drop may have left the entry in the index
	case f.bar == protocol.IDEnded:
		v.change(transition.Repeat(row, f.stamp), resultAlreadyDone)
	case f.bar == protocol.OwnerBlocked:
		cancelled, _ := transition.Cancel(row, f.stamp) // it is pending
		v.change(cancelled, resultBlocked)
	case transition.Impossible(row) != nil:
		v.change(transition.Discard(row, transition.Impossible(row), f.stamp), resultDead)
	case row.RunAt.After(f.lockedAt):
		v.decideEarly(f)
	case row.DueAt.After(f.lockedAt):
		v.change(transition.Promised(row, f.stamp), resultEarly)
	case f.handler == nil:
		v.change(transition.Await(row, f.stamp), resultUnknownKind)
	default:
		v.decideDue(f)
	}
	return v
}

// decideEarly decides about a task that isn't due. The task is never put under the version of its hint: the
// acknowledgement of the claim that sent the hint may come later and remove the entry (race 6). Only a newer version is
// put.
func (v *verdict) decideEarly(f facts) {
	wait := f.row.RunAt.Sub(f.lockedAt)
	switch {
	case protocol.WindowedVersion(f.row.Version) != protocol.WindowedVersion(f.hint.Version):
		v.settle(resultStale)
		v.put = true
	case wait > f.patience:
		v.settle(resultEarly)
		v.far = true
	default:
		v.holdUntil(f.now.Add(wait), f.hint.Lane)
		v.result = resultEarly
	}
}

// decideDue decides about a due task: most run, some must not run in this transaction.
func (v *verdict) decideDue(f facts) {
	kind := f.handler.Info
	if f.row.Attempt == 0 { // a replaced task begins its attempts anew: the charge went with them
		v.charge = hold.Charge{}
	}
	if v.failure.Err != nil && v.failure.Version == f.row.Version {
		v.change(chargeFailure(f.row, v.failure.Err, v.charge, kind.Backoff, f.stamp))
		return
	}
	v.failure.Err = nil
	if v.charge.Version == f.row.Version || chargedElsewhere(f.hint, f.row) {
		v.charge.State = hold.Charged
	}
	if justLost(f.hint, v.charge, f.handler) {
		v.holdUntil(f.now.Add(lossCharged), f.hint.Lane)
		v.elsewhere = true
		return
	}
	if justCharged(f.hint, v.charge, f.row, f.lockedAt) {
		v.holdUntil(f.now.Add(hold.RetryInterval), f.hint.Lane)
		v.elsewhere = true
		return
	}
	if exhausted(f.hint, v.charge, f.row) {
		v.change(transition.Discard(f.row, errKilled, f.stamp), resultDead)
		return
	}
	if late, skip := transition.Late(f.row, kind.CatchUpWindow, f.lockedAt); skip && !f.runsLate {
		v.change(transition.Skip(f.row, late, kind.CatchUpWindow, f.stamp), resultSkipped)
		return
	}
	if f.paused.After(f.lockedAt) && v.charge.State != hold.Charged { // what has begun runs to its end
		v.change(transition.PutOff(f.row, f.paused, f.stamp), resultPaused)
		return
	}
	if f.hint.Far && v.charge.State != hold.Charged && !asksInOrder(f.hint, f.row) {
		v.change(transition.PutOffToSlot(f.row, f.hint.OwnerSlot, f.stamp), resultLimited)
		return
	}
	if f.hint.NoSlot {
		v.holdUntil(f.hint.LookAt, f.hint.Lane) // it keeps its place
		return
	}
	if l := laneOf(f.hint, v.charge, f.row, f.handler.needsOwnTransaction()); l > f.hint.Lane {
		v.holdUntil(f.now, l)
		return
	}
	v.run = true
}

// asksInOrder reports whether a task with a far slot comes again, and takes effect in an order: if it waits behind another one it needs no slot.
// keepOrder looks.
func asksInOrder(h *hold.Hint, row task.Task) bool { return row.OrderKey != "" && h.Version > 1 }

func (v *verdict) settle(r Result) { v.result, v.settled = r, true }

func (v *verdict) holdUntil(at time.Time, l hold.Lane) { v.lookAt, v.lane = at, l }

// change settles the hint by a transition of the row that needs no handler.
func (v *verdict) change(row task.Task, r Result) {
	v.settle(r)
	v.next, v.put = &row, true
}

// laneOf returns the task's lane. An attempt that was charged beforehand is no failure yet.
func laneOf(h *hold.Hint, charge hold.Charge, row task.Task, ownTransaction bool) hold.Lane {
	failures := row.Attempt
	if charge.State == hold.Charged {
		failures--
	}
	switch {
	case h.Suspect && (failures > 0 || row.MaxAttempts == 1):
		return hold.LaneSuspect
	case failures > 0:
		return hold.LaneRetry
	case ownTransaction:
		return hold.LaneSingle
	default:
		return hold.LaneBatch
	}
}

// exhausted reports whether the task used up its attempts by ending its process: each attempt was charged beforehand,
// and no handler answered. The last attempt is begun twice first: each charge may come from a worker that ended before
// the handler ran and could not refund the charge.
func exhausted(h *hold.Hint, charge hold.Charge, row task.Task) bool {
	return h.Suspect && charge.State != hold.Charged && row.Attempt >= row.MaxAttempts && begunOnceMore(row)
}

// lossCharged is how long after the loss of an outside call's transaction the call is charged, unless the machine is very slow.
const lossCharged = time.Second

// justLost reports whether another worker may have called the outside handler of a suspect, lost the transaction a moment ago, and
// not charged the call yet. Nothing tells a row that is free for that reason from another at the first look.
func justLost(h *hold.Hint, charge hold.Charge, handler *Handler) bool {
	return h.Suspect && h.Looks == 0 && charge.State == hold.Uncharged && handler.Form == Outside
}

// aboutToRun is how long after its charge a suspect's run begins, at the latest: its worker commits and locks the row anew.
const aboutToRun = 3 * time.Second

// justCharged reports whether another worker has charged the suspect a moment ago, so that its row is free before its run
// begins. Several workers may have found the row: each would charge it. The next try of a task that failed is later than its
// row's change.
func justCharged(h *hold.Hint, charge hold.Charge, row task.Task, now time.Time) bool {
	return h.Suspect && charge.State == hold.Uncharged && row.Attempt > 0 &&
		!row.RunAt.After(row.UpdatedAt) && now.Sub(row.UpdatedAt).Abs() < aboutToRun // the clock may have been set back since
}

// chargedElsewhere reports whether a worker that stopped in an orderly way charged the task's last attempt beforehand,
// and then neither ran the task nor refunded the charge.
func chargedElsewhere(h *hold.Hint, row task.Task) bool {
	return !h.Suspect && row.Attempt >= row.MaxAttempts
}
