package task

import "fmt"

// State is where a task stands in its life. The numbers are those of the column.
type State int8

// A task starts Pending and ends in exactly one of the other states. Done and Cancelled are final. Dead is left by an
// operator alone: a retry makes the task Pending again, a discard Cancelled.
const (
	Pending   State = 0 // waits for its time, or for its next try
	Done      State = 1 // its effect has committed
	Cancelled State = 2 // taken back before its effect
	Dead      State = 3 // attempts used up, or discarded by its handler; kept and listed
)

var stateNames = [...]string{"pending", "done", "cancelled", "dead"}

// String returns the state's name in lower case.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state(%d)", int8(s))
	}
	return stateNames[s]
}

// ParseState reads a state's name.
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if n == name {
			return State(i), nil
		}
	}
	return 0, &FieldError{Field: "state", Problem: "must be pending, done, cancelled or dead"}
}

// MarshalText returns the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
