package task

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of a queue's limit.
const (
	maxCalls       = 1_000_000 // calls in the rate's unit of time
	MaxConcurrency = 10_000    // transactions at once
)

// Rate is a number of handler calls for each second, minute or hour. The zero Rate sets no bound.
type Rate struct {
	Calls int
	Per   time.Duration // time.Second, time.Minute or time.Hour
}

var rateUnits = []struct {
	name string
	per  time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

// ParseRate reads a rate such as 200/s, 50/m or 10/h. Its error is a *FieldError.
func ParseRate(text string) (Rate, error) {
	number, unit, _ := strings.Cut(text, "/")
	calls, err := strconv.Atoi(number)
	for _, u := range rateUnits {
		if r := (Rate{calls, u.per}); err == nil && u.name == unit && calls > 0 {
			return r, r.Check()
		}
	}
	return Rate{}, &FieldError{"rate", fmt.Sprintf("must be 1 to %d a second, minute or hour, such as 200/s, 50/m or 10/h", maxCalls)}
}

// String returns the rate as ParseRate reads it; empty for the zero Rate.
func (r Rate) String() string {
	for _, u := range rateUnits {
		if u.per == r.Per {
			return strconv.Itoa(r.Calls) + "/" + u.name
		}
	}
	return ""
}

// MarshalText returns String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRate, but an empty text is the zero Rate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	if *r = (Rate{}); len(text) > 0 {
		*r, err = ParseRate(string(text))
	}
	return err
}

// Check returns a *FieldError for a rate that ParseRate would not return; the zero Rate is none.
func (r Rate) Check() error { return r.check("rate") }

func (r Rate) check(field string) error {
	if r != (Rate{}) && (r.String() == "" || r.Calls < 1 || r.Calls > maxCalls) {
		return &FieldError{field, fmt.Sprintf("must be 1 to %d a second, minute or hour", maxCalls)}
	}
	return nil
}

// In returns how many calls the rate allows in d, rounded down.
func (r Rate) In(d time.Duration) int {
	if r.Per == 0 {
		return 0
	}
	return int(float64(r.Calls) * float64(d) / float64(r.Per))
}

// Span returns the time in which the rate allows n calls.
func (r Rate) Span(n int) time.Duration {
	if r.Calls == 0 {
		return 0
	}
	return time.Duration(float64(n) * float64(r.Per) / float64(r.Calls))
}

// Limit bounds what all workers of a queue do together. The zero Limit sets no bound.
type Limit struct {
	Rate        Rate // of handler calls
	Concurrency int  // transactions with handlers at once; 0: no bound. Tasks of one transaction run one after another

	// OwnerRate is the rate of handler calls for each owner. Tasks with an OrderKey count by that instead. A task that would run too soon is
	// put off to its slot, and holds up no other owner's.
	OwnerRate Rate
}

// Check returns a *FieldError for a number outside the limits.
func (l Limit) Check() error {
	if l.Concurrency < 0 || l.Concurrency > MaxConcurrency {
		return &FieldError{"concurrency", fmt.Sprintf("must be 0 (no bound) to %d", MaxConcurrency)}
	}
	return cmp.Or(l.Rate.Check(), l.OwnerRate.check("owner_rate"))
}
