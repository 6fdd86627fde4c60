package hold

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
