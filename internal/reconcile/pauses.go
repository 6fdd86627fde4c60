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
	pauseKnown   = 5 * time.Second // after a resume its tasks are looked for in each pass: workers put them off until they know
	wakeInterval = time.Minute     // then after that, and whenever as much time has gone by as had before
	putOffWithin = time.Hour       // of the resume: a worker's transaction that is open for longer has no handler of ours
	pausesPage   = 1000
	wakePages    = 20  // of tasks that stand at the end of a pause; then the pass goes on with the next pause
	passPages    = 100 // of all pauses; then the next pass goes on
)

// pauses gives a try at once to the tasks that were put off to the end of a pause which was resumed before. All of them stand
// at exactly that moment, unless somebody has moved them since, and they say for what they wait. A worker's transaction that had
// asked before the resume may put off some more: so the rows are looked at again and again while it may be open, and then the pause
// is forgotten.
type pauses struct {
	r     *Reconciler
	walks map[protocol.Pause]*pauseWalk // through the rows at the ends of resumed pauses
	round map[protocol.Pause]*pauseWalk // of those of this round
	last  protocol.Pause                // of this round
}

// pauseWalk is a way through the rows at the end of a pause, which may take several passes.
type pauseWalk struct {
	after protocol.Cursor // zero at the beginning
	began time.Time
	next  time.Time // when the next one begins
}

func (p *pauses) pass(ctx context.Context, now clock) (loop.Result, error) {
	more, err := p.wakeResumed(ctx, now)
	if err != nil {
		return loop.Result{}, err
	}
	n, err := p.forget(ctx, now().Add(-time.Second)) // workers go by their own clocks
	return loop.Result{More: more || n >= pausesPage}, err
}

// wakeResumed goes on with the round over all resumed pauses, and reports whether there is more to do at once.
func (p *pauses) wakeResumed(ctx context.Context, now clock) (more bool, err error) {
	resumed, err := p.r.store.ResumedPauses(ctx, p.last, pausesPage)
	if err != nil {
		return false, err
	}
	if p.round == nil {
		p.round = map[protocol.Pause]*pauseWalk{}
	}
	var over []protocol.Pause
	read := 0
	for _, pause := range resumed {
		w := cmp.Or(p.walks[pause], &pauseWalk{})
		p.round[pause], p.last = w, pause
		if w.after == (protocol.Cursor{}) {
			if w.began = now(); w.began.Before(w.next) {
				continue
			}
		}
		pages, ended, err := p.wake(ctx, pause, w)
		if err != nil {
			return false, err
		}
		if since := w.began.Sub(pause.Resumed); ended && since > putOffWithin {
			over = append(over, pause)
		} else if ended && since > pauseKnown {
			w.next = w.began.Add(max(wakeInterval, since))
		}
		more = more || !ended
		if read += pages; read >= passPages {
			return true, p.r.store.DropPauses(ctx, over)
		}
	}
	if len(resumed) >= pausesPage {
		more = true
	} else {
		p.walks, p.round, p.last = p.round, nil, protocol.Pause{}
	}
	return more, p.r.store.DropPauses(ctx, over)
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
func (p *pauses) wake(ctx context.Context, pause protocol.Pause, w *pauseWalk) (pages int, over bool, err error) {
	n := 0
	for pages < wakePages && !over {
		rows, next, err := p.r.store.PendingExcept(ctx, nil, pause.Until, pause.Until.Add(time.Millisecond), w.after, smallPage)
		if err != nil {
			return pages, false, err
		}
		rows = slices.DeleteFunc(rows, func(row task.Task) bool { return !pause.Matches(&row) }) // a crowd of others may stand there
		woken, err := p.wakePage(ctx, protocol.IDs(rows))
		if err != nil {
			return pages, false, err
		}
		n, w.after, pages, over = n+woken, next, pages+1, next == (protocol.Cursor{})
	}
	if n > 0 {
		p.r.cfg.Logger.InfoContext(ctx, "tasks of a resumed pause woken", slog.Int("n", n))
	}
	return pages, over, nil
}

// wakePage returns how many of the tasks it has woken. One that somebody has locked is left, and one for which another pause stands that
// ends no earlier.
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
		owners := make([]string, len(rows))
		for i := range rows {
			owners[i] = rows[i].Owner
		}
		standing, err := p.r.store.PausesOf(ctx, began, owners)
		if err != nil {
			return tx, err
		}
		for _, row := range rows {
			if next := transition.Resume(row, now); next.Version != row.Version && standing.Until(&row).Before(row.RunAt) {
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
