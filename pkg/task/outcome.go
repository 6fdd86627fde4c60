package task

import (
	"fmt"

	"github.com/duetime/duetime/internal/rowform"
)

// Outcome is what scheduling a spec did.
type Outcome int

// The outcomes; Spec.Outcome tells which it was.
const (
	Made     Outcome = iota + 1 // a new task
	Kept                        // none: the key was taken, and the task that has it stands as it was
	Moved                       // KeyMove has moved the task that has the key
	Replaced                    // KeyReplace has replaced the data of the task that has the key
)

var outcomeNames = [...]string{Made: "made", Kept: "kept", Moved: "moved", Replaced: "replaced"}

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	if o < Made || int(o) >= len(outcomeNames) {
		return fmt.Sprintf("outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

// Outcome says what scheduling the spec did, by the task that it returned:
//
//	t, err := tx.Schedule(ctx, spec)
//	if err == nil && spec.Outcome(t) == task.Kept {
//		// another task has the key
//	}
//
// A task with the id of the spec is Made, also if an earlier call made it: a call that is repeated with the same Spec, or with
// its id (WithID), because the answer of the first was lost, says the same as the first. A schedule.SpecFunc that gives specs a
// key or an id schedules other specs than the caller has: only these tell what was done.
func (s Spec) Outcome(t Task) Outcome {
	switch {
	case t.ID == s.row.ID:
		return Made
	case s.mode == rowform.MovePending:
		return Moved
	case s.mode == rowform.ReplacePending:
		return Replaced
	default:
		return Kept
	}
}
