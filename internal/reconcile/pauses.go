package reconcile

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

const (
	resumedKnown = 1000            // pauses whose tasks are woken: those that were resumed last
	pauseKnown   = 5 * time.Second // after a resume, until no worker puts a task off for the pause any more: they look each second
	wakeInterval = time.Minute     // from then on: a worker that was stopped meanwhile may go on by what it knew
	pausesPage   = 1000            // rows of pauses that a pass deletes
	wakePages    = 20              // of tasks that stand at the end of a pause; then the pass goes on with the next pause
)

// pauses gives a try at once to the tasks that were put off to the end of a pause which was resumed before. All of them stand
// at exactly that moment, unless somebody has moved them since, and they say for what they wait. A worker that did not know
// of the resume yet may have put off some more: so the rows are looked at until the pause's end.
type pauses struct {
	r     *Reconciler
	walks map[protocol.Pause]*pauseWalk // through the rows at the ends of resumed pauses
}

// pauseWalk is a way through the rows at the end of a pause, which may take several passes.
type pauseWalk struct {
	after protocol.Cursor // zero at the beginning
	began time.Time
	next  time.Time // when the next one begins
}

func (p *pauses) pass(ctx context.Context, now clock) (loop.Result, error) {
	resumed, err := p.r.store.ResumedPauses(ctx, resumedKnown)
	if err != nil {
		return loop.Result{}, err
	}
	more, walks := false, map[protocol.Pause]*pauseWalk{}
	for _, pause := range resumed {
		w := cmp.Or(p.walks[pause], &pauseWalk{})
		walks[pause] = w
		if w.after == (protocol.Cursor{}) {
			if w.began = now(); w.began.Before(w.next) {
				continue
			}
		}
		over, err := p.wake(ctx, pause, w)
		if err != nil {
			return loop.Result{}, err
		}
		if over && w.began.Sub(pause.Resumed) > pauseKnown {
			w.next = w.began.Add(wakeInterval)
		}
		more = more || !over
	}
	p.walks = walks
	n, err := p.forget(ctx, now().Add(-time.Second)) // workers go by their own clocks
	return loop.Result{More: more || n >= pausesPage}, err
}

// forget deletes pauses that were over before a moment. That a queue's has ended by itself is said here: an earlier line told of
// its begin.
func (p *pauses) forget(ctx context.Context, before time.Time) (int, error) {
	n, queues, err := p.r.store.ForgetPauses(ctx, before, pausesPage)
	if err != nil || len(queues) == 0 {
		return n, err
	}
	lines := make([]protocol.Event, len(queues))
	for i, queue := range queues {
		lines[i] = protocol.Event{At: before, Name: protocol.EventResumed, Actor: p.r.cfg.Name, Detail: queue}
	}
	return n, p.r.store.Record(ctx, nil, lines)
}

// wake wakes the tasks of the next pages, and reports whether the walk has come to its end.
func (p *pauses) wake(ctx context.Context, pause protocol.Pause, w *pauseWalk) (over bool, err error) {
	n := 0
	for range wakePages {
		rows, next, err := p.r.store.PendingExcept(ctx, nil, pause.Until, pause.Until.Add(time.Millisecond), w.after, smallPage)
		if err != nil {
			return false, err
		}
		rows = slices.DeleteFunc(rows, func(row task.Task) bool { return !pause.Matches(&row) }) // a crowd of others may stand there
		woken, err := p.wakePage(ctx, protocol.IDs(rows))
		if err != nil {
			return false, err
		}
		n, w.after = n+woken, next
		if over = next == (protocol.Cursor{}); over {
			break
		}
	}
	if n > 0 {
		p.r.cfg.Logger.InfoContext(ctx, "tasks of a resumed pause woken", slog.Int("n", n))
	}
	return over, nil
}

// wakePage returns how many of the tasks it has woken. One that somebody has locked is left.
func (p *pauses) wakePage(ctx context.Context, ids []task.ID) (int, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	var woken []transition.Change
	tx, err := ledger.Transact(ctx, p.r.store, p.r.cfg.Hooks, func(began *sqlx.Tx) (*ledger.Tx, error) {
		tx := ledger.NewTx(began, p.r.store, p.r.cfg.Name)
		rows, now, err := p.r.store.LockFree(ctx, began, ids)
		if err != nil {
			return tx, err
		}
		for _, row := range rows {
			if next := transition.Resume(row, now); next.Version != row.Version {
				woken = append(woken, transition.Change{Before: row, After: next})
			}
		}
		if len(woken) == 0 {
			return tx, nil
		}
		return tx, tx.Save(ctx, woken, nil)
	})
	if err != nil {
		return 0, err
	}
	return len(woken), p.r.follow(ctx, "compensated", tx)
}
