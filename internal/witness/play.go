package witness

import (
	"context"
	"errors"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// play is one play: what was promised, and what is still to be done.
type play struct {
	Name     string     `json:"name"`
	Owner    string     `json:"owner"`
	Promises []*promise `json:"promises"`

	id      task.ID
	begun   time.Time     // of the database's clock, like all times here
	steps   []step        // in the order of their times
	overdue time.Duration // for how long others took effect since its end
	doubted bool          // in the last pass a task seemed lost
	judged  time.Time     // when it got its verdict
	seen    []int64       // effects that were judged
}

// step is a call, or a few calls, at a moment.
type step struct {
	at time.Time
	do func(ctx context.Context)
}

// promise adds the promise of a task that is not scheduled yet.
func (p *play) promise(part string) *promise {
	made := &promise{Part: part, ID: task.NewID(), Is: state{None: true}}
	p.Promises = append(p.Promises, made)
	return made
}

// ends is the moment of the verdict, if each effect is there by then.
func (p *play) ends() time.Time {
	end := p.begun
	for _, made := range p.Promises {
		if due := time.UnixMilli(made.Is.Due); due.After(end) {
			end = due
		}
	}
	for _, s := range p.steps {
		if s.at.After(end) {
			end = s.at
		}
	}
	return end.Add(verdictDelay)
}

// answer is what a call has said.
type answer string

const (
	yes     answer = "yes"
	no      answer = "no"      // nothing was changed
	unknown answer = "unknown" // it may have been
)

// answerOf reads an error of a call.
func answerOf(err error) answer {
	switch {
	case err == nil:
		return yes
	case errors.Is(err, schedule.ErrCommitUnknown), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unknown
	}
	return no
}

// asked is a promise and what a call will make of it.
type asked struct {
	*promise

	to state
}

// later adds a call, whose rows say when tasks are due.
func (w *Witness) later(p *play, at time.Time, verb string, of []asked, do func(ctx context.Context) ([]task.Task, error)) {
	p.steps = append(p.steps, step{at, func(ctx context.Context) { w.call(ctx, p, verb, of, do) }})
}

// call makes a call, and notes what was promised by its answer. A play of which an answer was lost gets no verdict.
func (w *Witness) call(ctx context.Context, p *play, verb string, of []asked, do func(ctx context.Context) ([]task.Task, error)) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := do(ctx)
	said := answerOf(err)
	w.metrics.calls.WithLabelValues(verb, string(said)).Inc()
	if said == unknown {
		w.drop(p)
	}
	for _, a := range of {
		if said != yes {
			break
		}
		a.Is = a.to
		for _, row := range rows {
			if row.ID == a.ID && !a.Is.None {
				a.Is.Due = row.DueAt.UnixMilli()
			}
		}
	}
}
