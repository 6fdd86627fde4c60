package console

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// PauseOf is whose tasks a pause has left alone: those of a queue, of a kind, of an owner, or of several of these together,
// such as an owner's in one queue. What is empty stands for all, and one of the three is not.
type PauseOf = protocol.PauseOf

// Pause is what is paused.
type Pause struct {
	Queue   string `json:"queue,omitempty"` // empty: in all queues
	Kind    string `json:"kind,omitempty"`
	Owner   string `json:"owner,omitempty"`
	SinceMs int64  `json:"since_ms"`
	UntilMs *int64 `json:"until_ms,omitempty"` // when it ends by itself; absent, of a queue's alone: never
	Actor   string `json:"actor,omitempty"`    // who made it: worker for a handler; a queue's alone stands in the history
}

// Of is what the pause is about.
func (p Pause) Of() PauseOf { return PauseOf{Queue: p.Queue, Kind: p.Kind, Owner: p.Owner} }

// Pauses reads the pauses that stand, sorted by queue, kind and owner.
func (c *Console) Pauses(ctx context.Context) ([]Pause, error) {
	all, err := c.store.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	pauses := []Pause{}
	for _, p := range all {
		pauses = append(pauses, Pause{p.Queue, p.Kind, p.Owner, p.Made.UnixMilli(), unixMs(p.Until), p.Actor})
	}
	return pauses, nil
}

// Pause asks all workers to pause a queue of the deployment until a resume; they do within two seconds.
// changed is false if it was paused so before.
func (c *Console) Pause(ctx context.Context, queue string) (changed bool, err error) {
	if err := c.CheckQueue(ctx, queue); err != nil {
		return false, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if err := c.holdQueue(ctx, tx, queue); err != nil {
			return err
		}
		if changed, err = c.store.Pause(ctx, tx, queue, changes.Moment(), time.Time{}); err != nil || !changed {
			return err
		}
		changes.Note(event(changes, protocol.EventPaused, queue))
		return nil
	})
	return changed, err
}

// PauseUntil asks all workers to leave tasks alone until a moment, by 31 days at most; they do within two seconds, and go on
// at that moment. A paused queue keeps its due tasks as they are. Due tasks of an owner or a kind are put off to that moment,
// uncharged, and cost nothing while they wait. A pause never gets shorter by another one: resume it first. It returns when
// the pause ends; the zero time is that of a queue that is paused until a resume.
func (c *Console) PauseUntil(ctx context.Context, of PauseOf, end task.When) (ends time.Time, err error) {
	if err := c.checkPause(ctx, of); err != nil {
		return ends, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		until, err := end.Due(changes.Moment())
		if wrong, is := errors.AsType[*task.FieldError](err); is {
			return &task.FieldError{Field: "until", Problem: wrong.Problem}
		}
		if err := cmp.Or(err, protocol.CheckPauseEnd(until, changes.Moment())); err != nil {
			return err
		}
		if err := c.holdQueue(ctx, tx, of.Queue); err != nil {
			return err
		}
		if ends, err = c.pauseUntil(ctx, tx, changes, of, until); err != nil || !ends.Equal(until) {
			return err
		}
		changes.Note(event(changes, protocol.EventPaused, of.Detail(until)))
		return nil
	})
	return ends, err
}

func (c *Console) pauseUntil(ctx context.Context, tx *sqlx.Tx, changes *ledger.Tx, of PauseOf, until time.Time) (ends time.Time, err error) {
	if of.OfQueue() {
		if _, err := c.store.Pause(ctx, tx, of.Queue, changes.Moment(), until); err != nil {
			return ends, err
		}
		ends, _, err = c.store.PausedUntil(ctx, tx, of.Queue)
		return ends, err
	}
	err = c.store.PutPauses(ctx, tx, []protocol.Pause{{PauseOf: of, Until: until, Made: changes.Moment(), Actor: changes.Actor()}})
	if err != nil {
		return ends, err
	}
	return c.store.PauseUntil(ctx, tx, of)
}

// checkPause refuses what can't be paused, by a FieldError.
func (c *Console) checkPause(ctx context.Context, of PauseOf) error {
	if err := of.Check(); err != nil || of.Queue == "" {
		return err
	}
	return c.CheckQueue(ctx, of.Queue)
}

// Resume ends the pause of a queue; changed is false if there was none. A queue that is not paused must be one of the
// deployment's.
func (c *Console) Resume(ctx context.Context, queue string) (changed bool, err error) {
	return c.EndPause(ctx, PauseOf{Queue: queue})
}

// EndPause ends a pause of exactly this; changed is false if there was none. What was put off to its end is woken by the
// daemon within some seconds; while no daemon leads, it goes on at the pause's end.
func (c *Console) EndPause(ctx context.Context, of PauseOf) (changed bool, err error) {
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if of.OfQueue() {
			changed, err = c.store.Resume(ctx, tx, of.Queue)
		} else {
			changed, err = c.store.ResumePause(ctx, tx, of, changes.Moment())
		}
		if err != nil || !changed {
			return err
		}
		changes.Note(event(changes, protocol.EventResumed, of.Detail(time.Time{})))
		return nil
	})
	if err == nil && !changed {
		err = c.checkPause(ctx, of)
	}
	return changed, err
}
