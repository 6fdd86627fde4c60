package transition

import (
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// MaxError is how many bytes of a failure's text a row keeps.
const MaxError = 1024

// nextTry is the moment so long after now, as far as a row and a score can hold it: a delay below zero means now, one
// beyond the limits of a due time is cut to them.
func nextTry(now time.Time, delay time.Duration) time.Time {
	at := rowform.CeilMs(now.Add(min(max(delay, 0), task.MaxAhead)))
	if at.UnixMilli() > rowform.MaxUnixMs {
		return time.UnixMilli(rowform.MaxUnixMs).UTC()
	}
	return at
}
