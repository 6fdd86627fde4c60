package rowform

import (
	"encoding/base64"
	"time"
)

// KeyMode says what scheduling does when the spec's key is taken.
type KeyMode int

// The key modes; Unkeyed has no key.
const (
	Unkeyed KeyMode = iota
	KeepPending
	MovePending
	OnceOnly
	ReplacePending
	OncePerWindow
)

// The first letters of stored order keys.
const (
	OrderByKey     = "k" // before the key that the spec gave
	OrderBySubject = "s" // before the owner, a separator and the subject
)

// OrderSeparator parts the owner from the subject in an order key; no owner of ours has it.
const OrderSeparator = "\x1f"

// The first letters of stored keys.
const (
	PendingKey = "k" // cleared when the task is done or cancelled
	OnceKey    = "o" // stays for the row's life
	WindowKey  = "w" // stays too; before the key, which window of which length
	DeadKey    = "d" // was a pendingKey; with the task's id between, so that it stands in nobody's way until a retry
)

// MaxUnixMs is in 2039: beyond it a score would not be exact.
const MaxUnixMs = int64(1)<<41 - 1

// CeilMs rounds up to the millisecond that the row holds: rounding down would fire early.
func CeilMs(t time.Time) time.Time {
	t = t.UTC()
	ms := t.Truncate(time.Millisecond)
	if ms.Before(t) {
		ms = ms.Add(time.Millisecond)
	}
	return ms
}

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

// Latest returns the latest of the moments.
func Latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// MomentText is how details name a moment.
const MomentText = "2006-01-02T15:04:05.000Z07:00"

// GroupLabel is the label that each member of a group has: its value is the group's name. No spec can give it.
const GroupLabel = "duetime.group"
