package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/precise"
	"github.com/duetime/duetime/pkg/task"
)

// errAgain ends a transaction that taught the batch something: whom to charge, whom to leave out, that each call needs
// a savepoint. The next transaction begins at once.
var errAgain = errors.New("again")

// errPart ends a transaction in which the tasks of a batch can't be together.
var errPart = errors.New("part")

// errCut ends a transaction that a context of one of its handlers cut off; nobody knows of which.
var errCut = errors.New("transaction cut off by a handler's context")

// errLook ends a transaction whose commit was never answered: the rows tell.
var errLook = errors.New("commit without an answer")

// batch takes some hints to their ends, in one transaction if nothing goes wrong and in as many as it takes otherwise.
type batch struct {
	*Worker
	hints   []*hold.Hint
	sleeper *precise.Sleeper // of the runner; nil for none
	careful bool             // a savepoint for each call: something failed
	split   map[task.ID]bool // the tasks of a call that failed as a whole
	called  bool             // a handler was called in the present transaction
}

// settle returns when each hint is settled or has a later time at which to look again.
func (b *batch) settle(ctx context.Context) {
	for rollbacks := 0; len(b.hints) > 0; {
		err := b.try(ctx)
		switch {
		case err == nil:
			b.gate.works()
			return
		case errors.Is(err, errAgain):
			continue
		case errors.Is(err, errPart):
			b.part()
			return
		case ctx.Err() != nil:
			b.putOff(0)
			return
		case errors.Is(err, errCut) && b.noteLoss(ctx, err):
			continue
		case errors.Is(err, errLook):
			if b.noteLoss(ctx, err) {
				continue
			}
			b.putOff(jitter(hold.RetryInterval)) // what a server answers so may not pass at once
			return
		case b.store.Unavailable(err):
			if !b.lostConnection(ctx, err) {
				return
			}
		case b.store.Retryable(err) && rollbacks < maxTries-1:
			rollbacks++
			b.metrics.retried.Inc()
			b.Logger.DebugContext(ctx, "batch rolled back", slog.Int("n", len(b.hints)), slog.Any("err", err))
			rest(ctx, jitter(5*time.Millisecond))
		default:
			if !b.store.Retryable(err) && b.noteLoss(ctx, err) {
				continue
			}
			b.Logger.WarnContext(ctx, "batch given back", slog.Int("n", len(b.hints)), slog.Any("err", err))
			b.part()
			return
		}
	}
}

// putOff gives the hints back, to be looked at again after the delay.
func (b *batch) putOff(delay time.Duration) {
	for _, h := range b.hints {
		h.LookAt = b.clock.Now().Add(delay)
	}
}

// part gives the hints back, each to have a transaction of its own.
func (b *batch) part() {
	for _, h := range b.hints {
		b.leave(h)
	}
	b.hints = nil
}

// leave sends a hint away to come back alone.
func (b *batch) leave(h *hold.Hint) {
	h.Lane = max(h.Lane, hold.LaneSingle)
	h.Looks++
	h.LookAt = b.clock.Now().Add(jitter(hold.RetryInterval / 2))
}

// without takes the hints of the members out of the batch and sends them away.
func (b *batch) without(ms []*member) {
	gone := map[*hold.Hint]bool{}
	for _, m := range ms {
		gone[m.hint] = true
		b.leave(m.hint)
	}
	kept := b.hints[:0:0]
	for _, h := range b.hints {
		if !gone[h] {
			kept = append(kept, h)
		}
	}
	b.hints = kept
}

// try is one transaction: lock the rows, charge and save what is known beforehand, run what is due, mark it done,
// commit. What it found out about the hints counts only after the commit.
func (b *batch) try(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also ends a transaction that an abandoned handler keeps busy, as soon as it can be
	b.begun()
	t := &try{batch: b, ctx: ctx, members: map[task.ID]*member{}, touched: map[task.ID]task.Task{}}
	if err := t.open(); err != nil {
		return err
	}
	if err := t.work(); err != nil {
		t.rollback()
		return err
	}
	if err := t.commit(); err != nil {
		return err
	}
	if t.wrote {
		b.metrics.settling.Observe(time.Since(t.began).Seconds())
	}
	t.apply()
	return nil
}

// begun forgets which handlers an earlier transaction called.
func (b *batch) begun() {
	b.called = false
	for _, h := range b.hints {
		h.Call.Version = 0
	}
}

// work is what happens between the locks and the commit.
func (t *try) work() error {
	if err := t.charge(); err != nil {
		return err
	}
	if err := t.save(t.transitions...); err != nil {
		return err
	}
	for _, m := range t.members {
		if m.state == stateWaiting {
			t.order = append(t.order, m)
		}
	}
	sortByID(t.order)
	if err := t.run(); err != nil {
		return err
	}
	if err := t.markDone(t.ctx); err != nil {
		return t.unmarked(err)
	}
	return t.tell()
}

// commit makes everything true at once. An answer that never came leaves it to the rows to tell.
func (t *try) commit() error {
	if !t.wrote {
		t.rollback()
		return nil
	}
	err := t.tx.Commit()
	if err == nil {
		return nil
	}
	if t.store.Ambiguous(err) {
		for _, h := range t.hints {
			h.CommitUnknown = true
			h.Looks++
		}
	}
	if t.store.Ambiguous(err) && !t.store.Unavailable(err) {
		return fmt.Errorf("%w: %w", errLook, err)
	}
	return err
}

// rollback leaves nothing of the transaction. An abandoned handler may keep it busy: then it ends with its context.
func (t *try) rollback() {
	if !t.abandoned {
		_ = t.tx.Rollback() // there is nothing to undo that the server would not undo by itself
	}
}

func jitter(d time.Duration) time.Duration {
	return d + rand.N(2*d) //nolint:gosec // Spreads load, guards nothing.
}

// rest sleeps unless ctx ends first.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
