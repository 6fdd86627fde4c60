package hold

import (
	"time"

	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/pkg/task"
)

// Hint is a hint on its way from Kafka to being settled. Its exported fields belong to the hold while it waits, and to the
// runner that took it until it is released.
type Hint struct {
	task.Hint

	Traceparent  string    // of the call that published it; empty without tracing
	LookAt       time.Time // when to look next, on the database's clock
	PatientSince time.Time // when it came, or its moment if that is later
	Lane         Lane      // never falls
	Suspect      bool      // may have been running when the last owner of its partition died

	Looks         int    // times it was looked at without being settled
	Result        string // of the last look, as the metrics name it
	Settled       bool   // nothing more is to be done; Release takes it out
	CommitUnknown bool   // a commit with it was sent and never answered

	Charge  Charge
	Failure Failure
	Call    Call
	Losses  int // times its connection ended after its handler was called, although MySQL answered others

	phase   phase          // guarded by the hold
	marks   []offsets.Mark // the messages that wait for it; guarded by the hold
	revoked []int          // partitions of messages that are another worker's now; guarded by the hold
}

// phase is where a hint is. A hint that is settled or forgotten has left the hold.
type phase int

const (
	waiting phase = iota
	inHand        // with a runner
	revoked       // with a runner, and no message waits for it any more
)

// Charge says whether the attempt of the next run is counted already.
type Charge struct {
	State   ChargeState
	Version int64 // the row's, once the charge is committed; 0 if another worker charged it
}

// ChargeState is how far a charge beforehand is.
type ChargeState int

// What is known of a charge. The row's version tells whether one that was sent took effect.
const (
	Uncharged ChargeState = iota
	ChargeSent
	Charged
)

// Failure is the answer of a handler that is to be charged. It holds for one version of the row.
type Failure struct {
	Err     error
	Version int64
}

// Call says that the hint's handler was called in the present transaction.
type Call struct {
	Version int64 // of the row; 0: it was not called
	Outside bool  // the handler acts outside the transaction
}

// NewHint makes a hint that is to be looked at in its moment. One that is far ahead is looked at once: its row is likely to
// say something else, and if not, it isn't worth a place.
func NewHint(message task.Hint, now time.Time, patience time.Duration, marks ...offsets.Mark) *Hint {
	h := &Hint{Hint: message, LookAt: message.Moment(), PatientSince: message.Moment(), marks: marks}
	if h.LookAt.Sub(now) > patience {
		h.LookAt = now
	}
	if h.PatientSince.Before(now) || h.PatientSince.Sub(now) > patience {
		h.PatientSince = now
	}
	return h
}

// sharedKey makes hints one when they speak of the same version of the same task.
type sharedKey struct {
	id      task.ID
	version int64
}

func (h *Hint) key() sharedKey { return sharedKey{h.ID, h.Version} }

// settle lets the offsets of the hint's messages be committed.
func (h *Hint) settle() {
	for _, m := range h.marks {
		m.Settle()
	}
	h.marks = nil
}

// revoke gives up the messages of the generation, and reports whether no other message waits for the hint.
func (h *Hint) revoke(g *offsets.Generation) bool {
	kept := h.marks[:0]
	for _, m := range h.marks {
		if m.Generation() != g {
			kept = append(kept, m)
		} else {
			h.revoked = append(h.revoked, m.Partition())
		}
	}
	h.marks = kept
	return len(kept) == 0
}
