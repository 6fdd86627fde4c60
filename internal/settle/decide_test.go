package settle

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

var (
	locked   = time.UnixMilli(1_800_000_000_000).UTC() // when the row was locked
	errMeal  = errors.New("no food")
	patience = 5 * time.Second
)

// meal is a due row of version 3 with 2 attempts.
func meal(change ...func(*task.Task)) task.Task {
	row := task.Task{
		ID: task.ID{1}, Kind: "meal", Owner: "ann", State: task.Pending, Version: 3, MaxAttempts: 2,
		DueAt: locked.Add(-time.Millisecond), RunAt: locked.Add(-time.Millisecond), CreatedAt: locked.Add(-time.Hour),
	}
	for _, c := range change {
		c(&row)
	}
	return row
}

func attempts(n int) func(*task.Task)        { return func(r *task.Task) { r.Attempt = n } }
func state(s task.State) func(*task.Task)    { return func(r *task.Task) { r.State = s } }
func runIn(d time.Duration) func(*task.Task) { return func(r *task.Task) { r.RunAt = locked.Add(d) } }

func dueIn(d time.Duration) func(*task.Task) { return func(r *task.Task) { r.DueAt = locked.Add(d) } }
func version(v int64) func(*task.Task)       { return func(r *task.Task) { r.Version = v } }
func updated(d time.Duration) func(*task.Task) {
	return func(r *task.Task) { r.UpdatedAt = locked.Add(d) }
}
func lastError(text string) func(*task.Task) { return func(r *task.Task) { r.LastError = text } }

// begun says that the last attempt was begun once more.
func begun(r *task.Task) { r.LastError = lastBegun + "w" + errBefore + errMeal.Error() }

// Once a handler has answered, the row no longer says that its last attempt was begun once more: a later charge could neither be
// refunded, nor be followed by a further begin.
func TestAnswerEndsTheLastAttemptThatWasBegunOnceMore(t *testing.T) {
	t.Parallel()
	row := meal(attempts(2), begun)
	snoozed, _ := chargeFailure(row, SnoozeError{Delay: time.Hour}, hold.Charge{State: hold.Charged}, task.Backoff{}, locked)
	for what, got := range map[string]task.Task{"snoozed": snoozed, "moved by its handler": renew(row), "refunded": refund(row, locked)} {
		if got.LastError != errMeal.Error() {
			t.Errorf("%s: the last error is %q, want %q", what, got.LastError, errMeal)
		}
	}
	if got := renew(row); got.Attempt != 0 {
		t.Errorf("moved by its handler: %d attempts, want 0", got.Attempt)
	}
}

// A verdict depends only on the locked row and on the findings of earlier transactions.
func TestVerdict(t *testing.T) {
	t.Parallel()
	single, slow := &Handler{}, &Handler{}
	slow.slow.Store(true)
	outside := &Handler{Form: Outside}
	window := &Handler{Info: task.KindInfo{CatchUpWindow: time.Minute}}
	fails := func(at int64) hold.Failure { return hold.Failure{Err: errMeal, Version: at} }
	beforehand := func(v int64) hold.Charge { return hold.Charge{State: hold.ChargeSent, Version: v} }
	for _, tt := range []struct {
		name    string
		hint    hold.Hint
		row     task.Task
		handler *Handler
		want    string // result, consequences, and the row's next state with its attempts
	}{
		{"due", hold.Hint{}, meal(), single, "run"},
		{"done before", hold.Hint{}, meal(state(task.Done)), single, "already_done settled put"},
		{"done by a commit without an answer", hold.Hint{CommitUnknown: true}, meal(state(task.Done)), single, "done settled put"},
		{"cancelled after such a commit", hold.Hint{CommitUnknown: true}, meal(state(task.Cancelled)), single, "already_done settled put"},
		{"no handler here", hold.Hint{}, meal(), nil, "unknown_kind settled put pending/0"},

		{"later, same version", hold.Hint{}, meal(runIn(time.Second)), single, "early held 1s"},
		{"later, moved since", hold.Hint{}, meal(runIn(time.Second), version(4)), single, "stale settled put"},
		{"later than patience", hold.Hint{}, meal(runIn(time.Minute)), single, "early settled far"},
		{"promised for later than its run", hold.Hint{}, meal(dueIn(time.Second)), single, "early settled put pending/0"},

		{"failed at this version", hold.Hint{Failure: fails(3)}, meal(), single, "failed settled put pending/1"},
		{"failed for the last time", hold.Hint{Failure: fails(3)}, meal(attempts(1)), single, "dead settled put dead/2"},
		{"failed at another version", hold.Hint{Failure: fails(2)}, meal(), single, "run"},
		{"failed, charged beforehand", hold.Hint{Failure: fails(3), Charge: hold.Charge{State: hold.Charged}}, meal(attempts(1)), single, "failed settled put pending/1"},
		{"snoozed", hold.Hint{Failure: hold.Failure{Err: SnoozeError{Delay: time.Hour}, Version: 3}}, meal(), single, "snoozed settled put pending/0"},
		{"snoozed, charged beforehand", hold.Hint{Failure: hold.Failure{Err: SnoozeError{Delay: time.Hour}, Version: 3}, Charge: beforehand(9), Suspect: true}, meal(attempts(1)), single, "snoozed settled put pending/1"},
		{"snoozed in a last attempt that was begun once more", hold.Hint{Failure: hold.Failure{Err: SnoozeError{Delay: time.Hour}, Version: 3}, Charge: hold.Charge{State: hold.Charged}}, meal(attempts(2), begun), single, "snoozed settled put pending/2"},
		{"discarded", hold.Hint{Failure: hold.Failure{Err: DiscardError{errMeal}, Version: 3}}, meal(), single, "dead settled put dead/1"},

		{"failed before", hold.Hint{}, meal(attempts(1)), single, "held in lane 2"},
		{"failed before, in its lane", hold.Hint{Lane: hold.LaneRetry}, meal(attempts(1)), single, "run"},
		{"slow handler", hold.Hint{}, meal(), slow, "held in lane 1"},
		{"outside handler", hold.Hint{}, meal(), outside, "held in lane 1"},
		{"outside handler, sent away", hold.Hint{Lane: hold.LaneSingle}, meal(), outside, "run"},

		{"suspect, never charged", hold.Hint{Suspect: true}, meal(), single, "run"},
		{"suspect, charged before", hold.Hint{Suspect: true}, meal(attempts(1)), single, "held in lane 3"},
		{"suspect with one attempt", hold.Hint{Suspect: true}, meal(func(r *task.Task) { r.MaxAttempts = 1 }), single, "held in lane 3"},
		{"suspect, its charge took effect", hold.Hint{Suspect: true, Charge: beforehand(3)}, meal(attempts(1)), single, "run charged"},
		{"suspect, its charge did not", hold.Hint{Suspect: true, Charge: beforehand(4)}, meal(), single, "run"},
		{"suspect, replaced since its charge", hold.Hint{Suspect: true, Charge: hold.Charge{State: hold.Charged, Version: 2}}, meal(), single, "run"},
		{"snoozed, replaced since its charge", hold.Hint{Failure: hold.Failure{Err: SnoozeError{Delay: time.Hour}, Version: 3}, Charge: hold.Charge{State: hold.Charged, Version: 2}, Suspect: true}, meal(), single, "snoozed settled put pending/0"},
		{"failed, replaced since its charge", hold.Hint{Failure: fails(3), Charge: hold.Charge{State: hold.Charged, Version: 2}, Suspect: true}, meal(), single, "failed settled put pending/1"},
		{"suspect, moved since its charge", hold.Hint{Suspect: true, Charge: hold.Charge{State: hold.Charged, Version: 2}}, meal(attempts(1)), single, "run charged"},
		{"suspect, charged by another worker just now", hold.Hint{Suspect: true}, meal(attempts(1), version(4), updated(-time.Millisecond)), single, "held 100ms"},
		{"suspect, charged by another worker long ago", hold.Hint{Suspect: true}, meal(attempts(1), version(4), updated(-time.Second)), single, "held in lane 3"},
		{"suspect, changed by a clock that was ahead", hold.Hint{Suspect: true}, meal(attempts(1), version(4), updated(time.Hour)), single, "held in lane 3"},
		{"suspect of an outside handler at the first look", hold.Hint{Suspect: true}, meal(), outside, "held 1s"},
		{"suspect of an outside handler, seen free before", hold.Hint{Suspect: true, Looks: 1}, meal(), outside, "held in lane 1"},
		{"suspect of an outside handler, charged here", hold.Hint{Suspect: true, Charge: beforehand(3)}, meal(attempts(1)), outside, "held in lane 1"},
		{"suspect, used up once", hold.Hint{Suspect: true, Lane: hold.LaneSuspect}, meal(attempts(2)), single, "run"},
		{"suspect, used up twice", hold.Hint{Suspect: true}, meal(attempts(2), lastError(lastBegun+"w")), single, "dead settled put dead/2"},
		{"charged by a worker that left", hold.Hint{Lane: hold.LaneRetry}, meal(attempts(2)), single, "run charged"},

		{"too late to catch up", hold.Hint{}, meal(runIn(-time.Hour), dueIn(-time.Hour)), window, "skipped settled put cancelled/0"},
		{"late within the window", hold.Hint{}, meal(runIn(-time.Second), dueIn(-time.Second)), window, "run"},
		{"no slot", hold.Hint{NoSlot: true, LookAt: locked.Add(-time.Millisecond)}, meal(), single, "held"},
		{"no slot, done before", hold.Hint{NoSlot: true}, meal(state(task.Done)), single, "already_done settled put"},
		{"no slot, too late to catch up", hold.Hint{NoSlot: true}, meal(runIn(-time.Hour), dueIn(-time.Hour)), window, "skipped settled put cancelled/0"},
	} {
		tt.hint.Version = 3
		before := tt.hint
		v := decide(facts{
			hint: &tt.hint, row: tt.row, handler: tt.handler, lockedAt: locked, stamp: locked, now: locked, patience: patience,
		})
		if got := said(v, tt.hint); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if tt.hint.Charge != before.Charge || tt.hint.Failure != before.Failure || tt.hint.Lane != before.Lane {
			t.Errorf("%s: the hint was changed", tt.name)
		}
	}
}

func TestTaskOfABlockedOwnerIsCancelled(t *testing.T) {
	t.Parallel()
	single := &Handler{}
	const cancelled = "blocked settled put cancelled/"
	for _, tt := range []struct {
		name string
		hint hold.Hint
		row  task.Task
		want string
	}{
		{"due", hold.Hint{}, meal(), cancelled + "0"},
		{"not due", hold.Hint{}, meal(runIn(time.Hour)), cancelled + "0"},
		{"failed at this version", hold.Hint{Failure: hold.Failure{Err: errMeal, Version: 3}}, meal(attempts(1)), cancelled + "1"},
		{"suspect", hold.Hint{Suspect: true}, meal(attempts(2)), cancelled + "2"},
		{"impossible", hold.Hint{}, meal(func(r *task.Task) { r.MaxAttempts = 0 }), cancelled + "0"},
		{"no slot", hold.Hint{NoSlot: true}, meal(), cancelled + "0"},
		{"done before", hold.Hint{}, meal(state(task.Done)), "already_done settled put"},
		{"dead", hold.Hint{}, meal(state(task.Dead)), "already_done settled put"},
	} {
		tt.hint.Version = 3
		v := decide(facts{hint: &tt.hint, row: tt.row, bar: protocol.OwnerBlocked, handler: single, lockedAt: locked, stamp: locked, now: locked, patience: patience})
		if got := said(v, tt.hint); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Whatever its row says, a task whose id is that of one that has ended and left does not run.
func TestRepeatedTaskIsCancelled(t *testing.T) {
	t.Parallel()
	for _, row := range []task.Task{meal(), meal(runIn(time.Hour)), meal(attempts(2))} {
		hint := &hold.Hint{}
		hint.Version = 3
		v := decide(facts{hint: hint, row: row, bar: protocol.IDEnded, handler: &Handler{}, lockedAt: locked, stamp: locked, now: locked, patience: patience})
		if v.run || v.next == nil || v.next.State != task.Cancelled || v.next.LastError == "" || v.result != resultAlreadyDone {
			t.Errorf("run: %v, %s, next %+v", v.run, v.result, v.next)
		}
	}
}

func TestPausedTaskIsPutOff(t *testing.T) {
	t.Parallel()
	single, window := &Handler{}, &Handler{Info: task.KindInfo{CatchUpWindow: time.Minute}}
	const putOff = "paused settled put pending/"
	for _, tt := range []struct {
		name    string
		paused  time.Duration // until so long after the lock
		hint    hold.Hint
		row     task.Task
		handler *Handler
		want    string
	}{
		{"due", time.Hour, hold.Hint{}, meal(), single, putOff + "0"},
		{"the pause is over", 0, hold.Hint{}, meal(), single, "run"},
		{"failed before", time.Hour, hold.Hint{}, meal(attempts(1)), single, putOff + "1"},
		{"failed at this version", time.Hour, hold.Hint{Failure: hold.Failure{Err: errMeal, Version: 3}}, meal(), single, "failed settled put pending/1"},
		{"pauses itself", time.Hour, hold.Hint{Failure: hold.Failure{Err: SnoozeError{Delay: time.Hour, PausesKey: true}, Version: 3}}, meal(), single, "snoozed settled put pending/0"},
		{"suspect", time.Hour, hold.Hint{Suspect: true}, meal(), single, putOff + "0"},
		{"suspect, charged for this run", time.Hour, hold.Hint{Suspect: true, Charge: hold.Charge{State: hold.ChargeSent, Version: 3}}, meal(attempts(1)), single, "run charged"},
		{"not due", time.Hour, hold.Hint{}, meal(runIn(time.Second)), single, "early held 1s"},
		{"no slot", time.Hour, hold.Hint{NoSlot: true}, meal(), single, putOff + "0"},
		{"too late to catch up", time.Hour, hold.Hint{}, meal(runIn(-time.Hour), dueIn(-time.Hour)), window, "skipped settled put cancelled/0"},
	} {
		tt.hint.Version = 3
		until := locked.Add(tt.paused)
		v := decide(facts{
			hint: &tt.hint, row: tt.row, paused: until, handler: tt.handler, lockedAt: locked, stamp: locked, now: locked, patience: patience,
		})
		if got := said(v, tt.hint); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if v.result == resultPaused && !v.next.RunAt.Equal(until) {
			t.Errorf("%s: the next try is at %v, want the pause's end", tt.name, v.next.RunAt)
		}
	}
}

func TestTaskWithAFarSlotIsPutOff(t *testing.T) {
	t.Parallel()
	single, outside, slot := &Handler{}, &Handler{Form: Outside}, locked.Add(time.Hour)
	for _, tt := range []struct {
		name    string
		hint    hold.Hint
		row     task.Task
		handler *Handler
		want    string
	}{
		{"has a near one", hold.Hint{OwnerSlot: locked}, meal(), single, "run"},
		{"due", hold.Hint{Far: true}, meal(), single, "limited settled put pending/0"},
		{"failed before", hold.Hint{Far: true, Lane: hold.LaneRetry}, meal(attempts(1)), single, "limited settled put pending/1"},
		{"outside", hold.Hint{Far: true}, meal(), outside, "limited settled put pending/0"},
		{"suspect", hold.Hint{Far: true, Suspect: true}, meal(), single, "limited settled put pending/0"},
		{"a charge that took effect", hold.Hint{Far: true, Suspect: true, Charge: hold.Charge{State: hold.ChargeSent, Version: 3}}, meal(attempts(1)), single, "run charged"},
		{"no slot", hold.Hint{Far: true, NoSlot: true}, meal(), single, "limited settled put pending/0"},
		{"done before", hold.Hint{Far: true}, meal(state(task.Done)), single, "already_done settled put"},
		{"not due", hold.Hint{Far: true}, meal(runIn(time.Second)), single, "early held 1s"},
	} {
		tt.hint.Version = 3
		if tt.hint.Far {
			tt.hint.OwnerSlot = slot
		}
		v := decide(facts{hint: &tt.hint, row: tt.row, handler: tt.handler, lockedAt: locked, stamp: locked, now: locked, patience: patience})
		if got := said(v, tt.hint); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if v.result == resultLimited && !v.next.RunAt.Equal(slot) {
			t.Errorf("%s: the next try is at %v, want the slot", tt.name, v.next.RunAt)
		}
	}
}

func said(v verdict, h hold.Hint) string {
	var words []string
	add := func(word string, holds bool) {
		if holds {
			words = append(words, word)
		}
	}
	add(string(v.result), v.result != "")
	add("settled", v.settled)
	add("run", v.run)
	add("charged", v.run && v.charge.State == hold.Charged)
	add("held", !v.settled && !v.run)
	if !v.settled && !v.run {
		add(v.lookAt.Sub(locked).String(), v.lookAt.After(locked))
		add("in lane "+string('0'+rune(v.lane)), v.lane != h.Lane)
	}
	add("put", v.put)
	add("far", v.far)
	if v.next != nil {
		add(v.next.State.String()+"/"+string('0'+rune(v.next.Attempt)), true)
	}
	return strings.Join(words, " ")
}
