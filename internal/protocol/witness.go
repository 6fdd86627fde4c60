package protocol

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// WitnessQueue is the queue of the witness's tasks. Its name also begins the names of their kinds and owners. No configuration
// can have it: only the witness schedules there, and its tasks share no transaction with those of a service.
const WitnessQueue = "duetime.witness"

// WitnessEffect is what a task of the witness has left in its transaction.
type WitnessEffect struct {
	Seq  int64     // in the order of the inserts
	Play task.ID   // of the task
	Part string    // what the task is in the play
	Due  time.Time // with which the task ran
	At   time.Time // of the database's clock, in the task's transaction
	Data int       // with which the task ran
}
