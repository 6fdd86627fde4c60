package api

import (
	"testing"

	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// Each of our states, verbs and outcomes has its value in the API.
func TestEnumsHaveOurNames(t *testing.T) {
	t.Parallel()
	for state := task.Pending; state <= task.Dead; state++ {
		if got := stateOf(state); got == v1.State_STATE_UNSPECIFIED {
			t.Errorf("%s: %s", state, got)
		}
	}
	for state := task.RecurrenceActive; state <= task.RecurrenceOver; state++ {
		if got := recurrenceState(state); got == v1.RecurrenceState_RECURRENCE_STATE_UNSPECIFIED {
			t.Errorf("%s: %s", state, got)
		}
	}
	for state := task.OperationRunning; state <= task.OperationDone; state++ {
		if got := operationMessage(task.Operation{State: state}).GetState(); got == v1.OperationState_OPERATION_STATE_UNSPECIFIED {
			t.Errorf("%s: %s", state, got)
		}
	}
	for _, verb := range []task.Verb{task.VerbShift, task.VerbCancel, task.VerbRequeue, task.VerbRetry, task.VerbDiscard} {
		if got := verbOf(verb); got == v1.Verb_VERB_UNSPECIFIED {
			t.Errorf("%s: %s", verb, got)
		}
	}
	for outcome := task.Made; outcome <= task.Replaced; outcome++ {
		if got := outcomeOf(outcome); got == v1.Outcome_OUTCOME_UNSPECIFIED {
			t.Errorf("%s: %s", outcome, got)
		}
	}
}
