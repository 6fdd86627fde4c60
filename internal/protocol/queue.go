package protocol

import (
	"fmt"
	"strings"

	"github.com/duetime/duetime/pkg/task"
)

// CheckNewQueue returns the FieldError of a name that no queue beside these others can have. Kafka refuses two topics that differ
// only in "." against "_".
func CheckNewQueue(name string, others []string) error {
	if err := CheckQueue(name); err != nil {
		return err
	}
	refuse := func(problem string) error {
		return &task.FieldError{Field: "queue", Problem: fmt.Sprintf("%q %s", name, problem)}
	}
	switch topic := topicForm(name); topic {
	case topicForm(WitnessQueue):
		return refuse("is the witness's own queue, or has a topic that Kafka can't tell from its")
	case "compensate":
		return refuse("is the daemon's own consumer group")
	default:
		for _, other := range others {
			if other != name && topicForm(other) == topic {
				return refuse(fmt.Sprintf("differs from the queue %q only in . and _, which Kafka refuses", other))
			}
		}
	}
	return nil
}

func topicForm(queue string) string { return strings.ReplaceAll(queue, ".", "_") }

// QueueUses counts what uses a queue, or will.
type QueueUses struct {
	Processes   int   `json:"processes"`   // alive, which run its tasks
	Held        bool  `json:"held"`        // a transaction is under way that schedules into it, or limits or pauses it
	Operations  int   `json:"operations"`  // not over, which move tasks to it
	Groups      int   `json:"groups"`      // open, whose followers go there
	Recurrences int   `json:"recurrences"` // active or paused
	Pending     int64 `json:"pending"`     // tasks
	Dead        int64 `json:"dead"`        // tasks, which may be retried
}

// String names what is not 0; empty: nothing uses the queue.
func (u QueueUses) String() string {
	var parts []string
	if u.Held {
		parts = append(parts, "a transaction that is under way")
	}
	for _, use := range [...]struct {
		n    int64
		what string
	}{
		{u.Pending, "pending task"},
		{u.Dead, "dead task"},
		{int64(u.Recurrences), "recurrence"},
		{int64(u.Groups), "open group"},
		{int64(u.Operations), "operation"},
		{int64(u.Processes), "living process"},
	} {
		switch {
		case use.n == 1:
			parts = append(parts, "1 "+use.what)
		case use.n > 1 && use.what == "living process":
			parts = append(parts, fmt.Sprintf("%d %ses", use.n, use.what))
		case use.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", use.n, use.what))
		}
	}
	return strings.Join(parts, ", ")
}
