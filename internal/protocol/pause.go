package protocol

import (
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/pkg/task"
)

// MaxPause is how long a pause lasts at most.
const MaxPause = 31 * 24 * time.Hour

// PauseOf is whose tasks a pause has left alone: those of a queue, of a kind, of an owner, or of several of these together.
// What is empty stands for all, and one of the three is not.
type PauseOf struct{ Queue, Kind, Owner string }

// String names it for people.
func (p PauseOf) String() string {
	var parts []string
	for _, part := range [...]struct{ name, value string }{{"queue", p.Queue}, {"kind", p.Kind}, {"owner", p.Owner}} {
		if part.value != "" {
			parts = append(parts, part.name+"="+part.value)
		}
	}
	return strings.Join(parts, ", ")
}

// OfQueue reports whether it is about all tasks of one queue: workers hold these, and put none off.
func (p PauseOf) OfQueue() bool { return p.Queue != "" && p.Kind == "" && p.Owner == "" }

// Detail is what the history says of a pause until a moment, or, if it is zero, of a pause without an end, or of a resume.
// That of a whole queue begins with its name, as each line about a queue does.
func (p PauseOf) Detail(until time.Time) string {
	text := p.String()
	if p.OfQueue() {
		text = p.Queue
	}
	if until.IsZero() {
		return text
	}
	return text + " until " + until.UTC().Format(rowform.MomentText)
}

// Matches reports whether the task is one of these.
func (p PauseOf) Matches(t *task.Task) bool {
	return (p.Queue == "" || p.Queue == t.Queue) && (p.Kind == "" || p.Kind == t.Kind) && (p.Owner == "" || p.Owner == t.Owner)
}

// Check returns the FieldError of what no pause can be of.
func (p PauseOf) Check() error {
	if p == (PauseOf{}) {
		return &task.FieldError{Field: "pause", Problem: "must name a queue, a kind or an owner"}
	}
	if p.Queue != "" {
		if err := CheckQueue(p.Queue); err != nil {
			return err
		}
	}
	if strings.HasPrefix(p.Kind, WitnessQueue) || strings.HasPrefix(p.Owner, WitnessQueue) {
		return &task.FieldError{Field: "pause", Problem: "must name nobody whose name begins with " + WitnessQueue + ": the witness never pauses"}
	}
	if p.Kind != "" {
		if err := CheckKind(p.Kind); err != nil {
			return err
		}
	}
	if p.Owner == "" {
		return nil
	}
	return task.CheckOwner(p.Owner)
}

// Pause has tasks left alone until a moment.
type Pause struct {
	PauseOf

	Until   time.Time // when it ends by itself; zero, of a queue's alone: never
	Made    time.Time
	Resumed time.Time // since then it is over; zero: it stands
	Actor   string    // who made it; empty: not known
}

// End is Until, or a moment that never comes.
func (p Pause) End() time.Time {
	if p.Until.IsZero() {
		return time.UnixMilli(rowform.MaxUnixMs).UTC()
	}
	return p.Until
}

// CheckPauseEnd returns the FieldError of an end that a pause made now can't have.
func CheckPauseEnd(until, now time.Time) error {
	if !until.After(now) || until.Sub(now) > MaxPause {
		return &task.FieldError{Field: "until", Problem: fmt.Sprintf("must be later than now, by %d days at most", MaxPause/(24*time.Hour))}
	}
	return nil
}

// Pauses are the ends of pauses that stand, but for those of whole queues. A nil one has none.
type Pauses map[PauseOf]time.Time

// PausesOf returns those of the pauses that put tasks off.
func PausesOf(all []Pause) Pauses {
	var some Pauses
	for _, p := range all {
		if p.OfQueue() {
			continue
		}
		if some == nil {
			some = Pauses{}
		}
		some[p.PauseOf] = rowform.Latest(some[p.PauseOf], p.Until)
	}
	return some
}

// Until returns when the last of the pauses ends that the task is one of; zero if it is paused by none.
func (p Pauses) Until(t *task.Task) (until time.Time) {
	if len(p) == 0 {
		return until
	}
	for _, of := range [...]PauseOf{
		{Kind: t.Kind},
		{Owner: t.Owner},
		{Kind: t.Kind, Owner: t.Owner},
		{Queue: t.Queue, Kind: t.Kind},
		{Queue: t.Queue, Owner: t.Owner},
		{Queue: t.Queue, Kind: t.Kind, Owner: t.Owner},
	} {
		until = rowform.Latest(until, p[of])
	}
	return until
}
