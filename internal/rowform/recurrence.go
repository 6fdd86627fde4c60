package rowform

import (
	"encoding/base64"
	"time"
)

// WholeMs is CeilMs, and leaves zero as it is.
func WholeMs(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return CeilMs(t)
}

// RecurrenceKey is the first letter of the keys of recurrences' tasks. After it stand the recurrence's id and the tick: no tick
// gets two rows.
const RecurrenceKey = "r"

// IDText writes ids within stored keys.
var IDText = base64.RawURLEncoding
