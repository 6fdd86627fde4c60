package transition

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// clampDue brings a due time into the limits of a new task's: the past means now, too far is refused.
func clampDue(due, now time.Time) (time.Time, error) { return task.In(due.Sub(now)).Due(now) }
