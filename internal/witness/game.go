package witness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	owners = 16                      // whose shards differ, so that the game is played on most of them
	soon   = 1500 * time.Millisecond // from a play's begin to its first due time

	tickPlay = "tick"
)

// plays are the plays in the order of the game. Each adds its promises and steps to a play that begins. Their number is odd, so
// that variants which alternate with the number of the play alternate in each of them.
var plays = []struct {
	name string
	plan func(w *Witness, p *play)
}{
	{"keep", (*Witness).keep},
	{"replace", (*Witness).replace},
	{"move", (*Witness).move},
	{"pair", (*Witness).pair},
	{"cancel", (*Witness).cancel},
	{"speed_up", (*Witness).speedUp},
	{tickPlay, (*Witness).tick},
}

// spec makes a task of the play.
func (p *play) spec(of *promise, kind task.Kind[payload], due time.Time, data, fails int, opts ...task.Option) task.Spec {
	opts = append(opts, task.WithID(of.ID))
	return kind.New(p.Owner, payload{Play: p.id, Part: of.Part, Data: data, Fails: fails}, task.At(due), opts...)
}

// rowsOf is the answer of a call of one task.
func rowsOf(row task.Task, err error) ([]task.Task, error) { return []task.Task{row}, err }

// scheduleOne adds the call that schedules one task, whose row then may be given to hintTwice.
func (w *Witness) scheduleOne(p *play, after time.Duration, fails int) (of *promise, row *task.Task) {
	of, row = p.promise("task"), new(task.Task)
	due := p.begun.Add(after)
	spec := p.spec(of, plain, due, 1, fails)
	w.later(p, p.begun, "schedule", []asked{{of, state{Due: due.UnixMilli(), Data: 1}}}, func(ctx context.Context) (_ []task.Task, err error) {
		*row, err = w.client.Schedule(ctx, spec)
		return rowsOf(*row, err)
	})
	return of, row
}

// hintTwice has the index hold the task as it was once more, so that a worker gets a hint of what has ended.
func (w *Witness) hintTwice(p *play, row *task.Task) {
	p.steps = append(p.steps, step{p.begun.Add(2 * soon), func(ctx context.Context) {
		if !row.ID.IsZero() {
			_ = w.index.Put(ctx, []task.Task{*row}) // while Redis is away there is no hint
		}
	}})
}

// whileHinted returns a moment shortly before a task is due, when its hint is under way.
func whileHinted(due time.Time) time.Time {
	return due.Add(-time.Duration(rand.IntN(80)) * time.Millisecond) //nolint:gosec // Guards nothing.
}

// keep schedules a task, every other one of which fails at first.
func (w *Witness) keep(p *play) {
	_, row := w.scheduleOne(p, soon, w.begun%2)
	w.hintTwice(p, row)
}

func (w *Witness) move(p *play) {
	of, _ := w.scheduleOne(p, soon, 0)
	to := p.begun.Add(2 * soon)
	w.later(p, whileHinted(p.begun.Add(soon)), "move", []asked{{of, state{Due: to.UnixMilli(), Data: 1}}}, func(ctx context.Context) ([]task.Task, error) {
		return rowsOf(w.client.Reschedule(ctx, of.ID, task.At(to)))
	})
}

func (w *Witness) speedUp(p *play) {
	of, _ := w.scheduleOne(p, 4*soon, 0)
	w.later(p, p.begun.Add(soon/2), "speed_up", []asked{{of, state{Data: 1}}}, func(ctx context.Context) ([]task.Task, error) {
		return rowsOf(w.client.Shift(ctx, of.ID, -3*soon))
	})
}

// cancel cancels a task well before it is due, or while its hint is under way.
func (w *Witness) cancel(p *play) {
	of, row := w.scheduleOne(p, soon, 0)
	at := p.begun.Add(soon / 2)
	if w.begun%2 == 0 {
		at = whileHinted(p.begun.Add(soon))
	}
	w.later(p, at, "cancel", []asked{{of, state{None: true}}}, func(ctx context.Context) ([]task.Task, error) {
		return rowsOf(w.client.Cancel(ctx, of.ID))
	})
	w.hintTwice(p, row)
}

// replace schedules a task by a key, and then another under the key: the first one becomes that, or, if it has ended, a
// second task is made.
func (w *Witness) replace(p *play) {
	first, second, key := p.promise("first"), p.promise("second"), task.KeyReplace(p.id.String())
	due := p.begun.Add(2 * soon)
	spec, with := p.spec(first, plain, due, 1, 0, key), p.spec(second, plain, due.Add(-soon), 2, 0, key)
	w.later(p, p.begun, "schedule", []asked{{first, state{Due: due.UnixMilli(), Data: 1}}}, func(ctx context.Context) ([]task.Task, error) {
		return rowsOf(w.client.Schedule(ctx, spec))
	})
	of := []asked{{first, state{None: true, Replaced: true}}, {second, state{Due: due.Add(-soon).UnixMilli(), Data: 2}}}
	w.later(p, p.begun.Add(soon/2), "replace", of, func(ctx context.Context) ([]task.Task, error) {
		row, err := w.client.Schedule(ctx, with)
		if err != nil {
			return nil, err
		}
		second.ID = row.ID
		if row.ID != first.ID {
			of[0].promise = new(promise) // the first one had ended: nothing was replaced
		}
		return []task.Task{row}, nil
	})
}

// pair schedules two tasks in order, of which the first fails at first.
func (w *Witness) pair(p *play) {
	first, second := p.promise("first"), p.promise("second")
	second.After = []string{first.Part}
	key, due := task.OrderKey(p.id.String()), p.begun.Add(soon)
	then := due.Add(time.Millisecond)
	specs := []task.Spec{p.spec(first, ordered, due, 1, 1, key), p.spec(second, ordered, then, 1, 0, key)}
	of := []asked{{first, state{Due: due.UnixMilli(), Data: 1}}, {second, state{Due: then.UnixMilli(), Data: 1}}}
	w.later(p, p.begun, "schedule", of, func(ctx context.Context) (rows []task.Task, err error) {
		err = w.client.InTx(ctx, func(tx *schedule.Tx) (err error) {
			rows, err = tx.ScheduleMany(ctx, specs)
			return err
		})
		return rows, err
	})
}

// tick has a recurrence make two tasks, and gives it other data before the first of them is due.
func (w *Witness) tick(p *play) {
	p.Owner = witnessOwner(int(w.epoch)) // there is one recurrence of a term, which each play begins anew
	first := p.begun.Add(5 * time.Second).Truncate(time.Second)
	for i := range 2 {
		p.promise(tickPart(first.Add(time.Duration(i) * time.Second))).ID = task.ID{} // the recurrence makes it
	}
	define := func(at time.Time, verb string, data int) {
		var of []asked
		for i, made := range p.Promises {
			of = append(of, asked{made, state{Due: first.Add(time.Duration(i) * time.Second).UnixMilli(), Data: data, Later: true}})
		}
		w.later(p, at, verb, of, func(ctx context.Context) ([]task.Task, error) {
			// With a tick under way the answer would not tell what becomes of it.
			ctx, cancel := context.WithTimeout(ctx, first.Add(-soon/3).Sub(w.now()))
			defer cancel()
			_, err := w.client.Recur(ctx, protocol.WitnessQueue, recur.Every(time.Second).From(first),
				plain.Recurring(p.Owner, payload{Play: p.id, Data: data}),
				recur.Policy{Start: first, Count: 2, CatchUp: recur.CatchUpAll(10), Overlap: recur.OverlapAllow})
			return nil, err
		})
	}
	define(p.begun, "recur", 1)
	define(p.begun.Add(soon), "redefine", 2)
}

func witnessOwner(n int) string { return fmt.Sprintf("%s.%d", protocol.WitnessQueue, n%owners) }
