package console

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/internal/why"
	"github.com/duetime/duetime/pkg/task"
)

// Answer is what one rule says: docs/WHY.md lists the rules.
type Answer = why.Answer

// Explanation says why tasks are late.
type Explanation struct {
	NowMs   int64    `json:"now_ms"`           // of the database; of this process while the database does not answer
	Answers []Answer `json:"answers"`          // at least one; the first one counts most
	Unread  []string `json:"unread,omitempty"` // what could not be read: rules that need it don't hold

	facts   why.Facts
	console *Console
}

// Why says why tasks are late, or that none is. It reads a bounded part of the rows, and asks the servers whether they answer. That
// MySQL does not answer is an answer too, not an error.
func (c *Console) Why(ctx context.Context) (Explanation, error) {
	f, err := c.facts(ctx)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{f.Now.UnixMilli(), why.Why(f), f.Unread, f, c}, nil
}

// Task says why a task has not taken effect, or that it has, by what Why has read: one answer. It is task.ErrNotFound if there is none.
func (e Explanation) Task(ctx context.Context, id task.ID) (Explanation, error) {
	if _, away := e.facts.Away[why.MySQL]; away {
		e.Answers = e.Answers[:1]
		return e, nil
	}
	rows, err := e.console.store.Get(ctx, nil, []task.ID{id})
	if err != nil {
		return Explanation{}, err
	}
	if len(rows) == 0 {
		return Explanation{}, fmt.Errorf("task %s: %w", id, task.ErrNotFound)
	}
	asked, err := e.console.asked(ctx, rows[0])
	if err != nil {
		return Explanation{}, err
	}
	if e.facts.Now, err = e.console.store.Now(ctx, nil); err != nil {
		return Explanation{}, err
	}
	e.NowMs, e.Answers = e.facts.Now.UnixMilli(), []Answer{why.OfTask(e.facts, asked)}
	return e, nil
}

// asked is what the rules need of a task.
func (c *Console) asked(ctx context.Context, row task.Task) (why.Task, error) {
	t := why.Task{
		ID: row.ID.String(), Kind: row.Kind, Queue: row.Queue, State: row.State.String(), Due: row.DueAt, Run: row.RunAt,
		Attempt: row.Attempt, MaxAttempts: row.MaxAttempts, Error: row.LastError, Unhandled: transition.Waits(row),
		Paused: transition.WaitsForPause(row), Limited: transition.WaitsForSlot(row),
	}
	if row.State == task.Done {
		t.Lag = row.FinishedAt.Sub(transition.FiredFrom(row))
	}
	if !transition.WaitsBehind(row) {
		return t, nil
	}
	heads, err := c.store.Heads(ctx, c.store.DB(), []task.ID{row.ID}, nil)
	if err != nil {
		return t, err
	}
	for _, h := range heads {
		if h.ID != row.ID {
			t.Head = h.ID.String()
		}
	}
	return t, nil
}

// lateAfterGrace is how long a task may be due before it counts as late.
func (c *Console) lateAfterGrace() time.Duration { return cmp.Or(c.cfg.Grace, lateAfter) }

// handlersLately reads how long handlers take now, and took in the last day.
func (c *Console) handlersLately(ctx context.Context) (all []why.Handler, err error) {
	lately, err := c.LagOver(ctx, LagQuery{Span: time.Minute, Step: 10 * time.Second, By: ByKind})
	if err != nil {
		return nil, err
	}
	day, err := c.LagOver(ctx, LagQuery{Span: 24 * time.Hour, Step: time.Hour, By: ByKind})
	if err != nil {
		return nil, err
	}
	for kind, now := range lately.Groups {
		if before := day.Groups[kind]; now.Timed > 0 && before.Timed > 0 {
			all = append(all, why.Handler{Kind: kind, Now: ofMs(now.HandlerP50), Before: ofMs(before.HandlerP50)})
		}
	}
	return all, nil
}

func ofMs(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
