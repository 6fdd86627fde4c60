package hold

import (
	"time"

	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Hint is a hint on its way from Kafka to being settled. Its exported fields belong to the hold while the hint waits,
// and to its runner from Take to Release.
type Hint struct {
	protocol.Hint

	Traceparent  string    // of the call that published the hint; empty without tracing
	LookAt       time.Time // when to look next, on the database's clock
	CameAt       time.Time // when the worker had it, on the database's clock
	PatientSince time.Time // when the hint came, or its moment if that is later
	Lane         Lane      // never decreases
	Suspect      bool      // its task may have run when the process that held its partition died
	Found        bool      // no message brought the hint: a look found its row in MySQL
	Awaited      bool      // a message about the found row should come here

	Looks         int     // transactions that looked at the row without settling the hint
	Result        string  // of the last look, as the metrics name it
	Settled       bool    // Release removes the hint
	Dropped       bool    // Release forgets the hint if no message waits for it: another look finds its row again
	Behind        task.ID // an earlier task of its order key, for which the hint is held; zero for none
	Called        bool    // the handler, since the hint was taken
	CommitUnknown bool    // a commit of its transaction was sent and never answered

	NoSlot bool // the take was a probe: the handler must not be called

	// AllowedAt is when the queue's limit let the hint be taken; zero if no limit delayed it.
	AllowedAt time.Time

	// OwnerSlot is when the rate of the hint's owner lets its task run; zero: not asked yet, or the queue has no such rate. OwnerWait is the
	// same if the hint has waited for it, else zero.
	OwnerSlot, OwnerWait time.Time
	OnlyLook             bool // it waited behind a task when it was last looked at, and was taken without a slot: the handler must not be called
	Far                  bool // the slot is that far that the task is put off to it

	Charge  Charge
	Failure Failure
	Call    Call
	Losses  int // transactions that lost their connection after the hint's handler was called, although MySQL answered others

	rank    int            // of its kind's priority
	spent   bool           // OwnerSlot is
	phase   phase          // guarded by the hold
	seated  bool           // the seat of suspects is to be freed at the Release
	marks   []offsets.Mark // messages that wait for the hint to be settled; guarded by the hold
	revoked []int          // partitions that were lost while a runner has the hint in hand; guarded by the hold
}

// phase is where a hint is. A hint that is settled or forgotten has left the hold.
type phase int

const (
	waiting phase = iota
	inHand        // with a runner
	revoked       // with a runner, and no message waits for the hint any more
)

// Charge says whether the attempt of the next run was charged beforehand.
type Charge struct {
	State   ChargeState
	Version int64 // the row's, once the charge is committed; 0 if another worker charged it
}

// ChargeState is the state of a charge beforehand.
type ChargeState int

// The states of a charge. The row's version tells whether a sent charge took effect.
const (
	Uncharged ChargeState = iota
	ChargeSent
	Charged
)

// Failure is a handler's error that is to be charged. It counts for one version of the row.
type Failure struct {
	Err     error
	Version int64
}

// Call says whether the hint's handler was called in the present transaction.
type Call struct {
	Version int64 // of the row; 0: the handler was not called
	Outside bool  // the handler acts outside the transaction
}

// Limited is the Result of a hint whose task was put off to its slot.
const Limited = "limited"

// NewHint makes a hint that is to be looked at in its moment. A hint whose moment is farther off than patience is looked
// at now: its row probably says another time, and a hint that early is not worth holding.
func NewHint(message protocol.Hint, now time.Time, patience time.Duration, marks ...offsets.Mark) *Hint {
	h := &Hint{Hint: message, LookAt: message.Moment(), CameAt: now, PatientSince: message.Moment(), marks: marks}
	if h.LookAt.Sub(now) > patience {
		h.LookAt = now
	}
	if h.PatientSince.Before(now) || h.PatientSince.Sub(now) > patience {
		h.PatientSince = now
	}
	return h
}

// FoundHint makes a hint of a row that a look found. A task that is due already may have run in a process that died.
func FoundHint(row task.Task, now time.Time, patience time.Duration) *Hint {
	h := NewHint(protocol.Hint{
		ID: row.ID, Kind: protocol.HintKind(row.Kind), Owner: protocol.HintOwner(protocol.Route(row.Owner, row.OrderKey)), RunAt: row.RunAt.UnixMilli(),
		Version: protocol.WindowedVersion(row.Version),
	}, now, patience)
	h.Found, h.Suspect = true, !row.RunAt.After(now)
	return h
}

// sharedKey identifies a hint: messages about the same version of a task share one hint.
type sharedKey struct {
	id      task.ID
	version int64
}

func (h *Hint) key() sharedKey { return sharedKey{h.ID, h.Version} }

// settle settles the hint's messages, so that their offsets can be committed.
func (h *Hint) settle() {
	for _, m := range h.marks {
		m.Settle()
	}
	h.marks = nil
}

// revoke gives up the messages of the generation, and reports whether no other message waits for the hint. Nothing of a
// waiting hint runs, so its partitions are free.
func (h *Hint) revoke(g *offsets.Generation) bool {
	kept := h.marks[:0]
	for _, m := range h.marks {
		if m.Generation() != g {
			kept = append(kept, m)
		} else if h.phase != waiting {
			h.revoked = append(h.revoked, m.Partition())
		}
	}
	h.marks = kept
	return len(kept) == 0
}

// Lane is a class of hints with runners of its own, so that slow or dangerous tasks delay only tasks of their lane.
type Lane int

// The lanes, in the order in which a task that goes wrong moves through them.
const (
	LaneBatch   Lane = iota // first tries, many in a transaction
	LaneSingle              // one task a transaction: tasks of outside and slow handlers, and tasks sent away from a batch
	LaneRetry               // one task a transaction: tasks that failed; half as many runners, or other lanes would wait for them
	LaneSuspect             // one task at a time in the whole process: tasks that may end it
	Lanes                   // number of lanes
)
