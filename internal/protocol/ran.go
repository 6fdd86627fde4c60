package protocol

import (
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Ran is how the last try of a done task went. A row keeps it in 64 bits, so durations have a byte each: they are exact to a millisecond
// below 16 ms, and to about 6 % from there on. Nothing is decided by it.
//
// Tasks that ran in one transaction share when they were taken, when its first handler began, and when they were marked done.
type Ran struct {
	Worker  int64         // number of the worker's id: see WorkerNumber
	Hinted  time.Duration // from the try's moment until the worker had its hint; 0 if it had the hint before
	Taken   time.Duration // from then until a runner took it
	Started time.Duration // from then until the first handler of its transaction began
	Ended   time.Duration // from then until its row was marked done, just before COMMIT
	Handler time.Duration // of its own handler's call
}

// A worker's number has the last digits of its id, so that a row's number is positive.
const (
	workerDigits = 6 // hexadecimal
	workerMask   = 1<<23 - 1
)

// WorkerNumber returns the number, never 0, by which a row names the worker with this id. It is rarely that of two workers that live at
// the same time.
func WorkerNumber(id string) int64 {
	n, _ := strconv.ParseInt(id[max(0, len(id)-workerDigits):], 16, 64)
	return max(1, n&workerMask)
}

// Pack returns the row's form.
func (r Ran) Pack() int64 {
	packed := r.Worker
	for _, d := range []time.Duration{r.Hinted, r.Taken, r.Started, r.Ended, r.Handler} {
		packed = packed<<8 | packDuration(d)
	}
	return packed
}

// UnpackRan reads a row's form; false if the row does not say how its task ran.
func UnpackRan(packed int64) (Ran, bool) {
	if packed <= 0 {
		return Ran{}, false
	}
	at := func(place int) time.Duration { return unpackDuration(packed >> (8 * place) & 255) }
	return Ran{Worker: packed >> 40, Hinted: at(4), Taken: at(3), Started: at(2), Ended: at(1), Handler: at(0)}, true
}

// Fit makes the steps' sum what the row's own times say: the longest step is the least exact one.
func (r *Ran) Fit(whole time.Duration) {
	longest, sum := &r.Hinted, time.Duration(0)
	for _, step := range []*time.Duration{&r.Hinted, &r.Taken, &r.Started, &r.Ended} {
		if sum += *step; *step > *longest {
			longest = step
		}
	}
	*longest = max(0, *longest+whole-sum)
}

// mantissa is the least mantissa of a duration of 16 ms or more: a byte is a floating-point number of milliseconds, with three bits of
// mantissa, whose first bit is not stored, and five of exponent.
const mantissa = 8

func packDuration(d time.Duration) int64 {
	ms := int64(max(0, d).Round(time.Millisecond) / time.Millisecond)
	exponent := int64(0)
	for ms>>exponent >= 2*mantissa {
		exponent++
	}
	if exponent == 0 {
		return ms
	}
	rounded := (ms + 1<<exponent/2) >> exponent // perhaps the next exponent's least mantissa: the code is the same
	return min(255, exponent*mantissa+rounded)
}

func unpackDuration(code int64) time.Duration {
	exponent := max(0, code/mantissa-1)
	return time.Duration((code-mantissa*exponent)<<exponent) * time.Millisecond
}

// Call is a call of a handler that has not returned, as a process reports it.
type Call struct {
	Kind    string  `json:"kind"`
	Task    task.ID `json:"task"`     // the first one
	Tasks   int     `json:"tasks"`    // of the call
	SinceMs int64   `json:"since_ms"` // Unix milliseconds of the database's clock
	LimitMs int64   `json:"limit_ms"` // after which the call's context ends
}

// Unhandled is the number of pending tasks of a queue and kind that wait for a worker of their kind.
type Unhandled struct {
	Queue, Kind string
	Tasks       int64
}
