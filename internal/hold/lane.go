package hold

// Lane is a class of hints with runners of its own, so that what is slow or dangerous delays only its like.
type Lane int

// The lanes, in the order in which a task that goes wrong moves through them.
const (
	LaneBatch   Lane = iota // first tries, many in a transaction
	LaneSingle              // one task a transaction: outside and slow handlers, and what harmed its batch
	LaneRetry               // one task a transaction: what has failed before; half as many runners, so that others don't wait for it
	LaneSuspect             // one task at a time in the whole process: what may kill it
	Lanes
)
