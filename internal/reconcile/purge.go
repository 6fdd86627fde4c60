package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
)

const (
	purgeBatch  = 500                // rows deleted by one statement, which locks them
	othersEvery = 10 * time.Second   // while a round of tasks goes on, between two looks for other rows
	queueKept   = 7 * 24 * time.Hour // what is left of an unused queue, at least: a queue may be between two configurations, or run once a day
)

// unsettled is how long ago a row may have changed that the changed pass has still to compare.
func (r *Reconciler) unsettled() time.Duration { return r.cfg.Longest + 2*windowMargin }

// purge deletes finished rows past their retention, and lines of the history, recurrences, operations and groups of the same age, and what
// is left of queues that nobody has used for as long.
type purge struct {
	r      *Reconciler
	tasks  []kept
	others time.Time // when rows other than tasks were last purged
}

// kept are tasks that are kept for the same time.
type kept struct {
	protocol.Purgeable

	retention time.Duration
	upTo      time.Time // those that had ended before are deleted, as far as this term knows; zero before the first pass
}

func newPurge(r *Reconciler) *purge {
	kinds := slices.Sorted(maps.Keys(r.cfg.RetentionByKind))
	p := &purge{r: r, tasks: []kept{{Purgeable: protocol.Purgeable{Except: kinds}, retention: r.cfg.Retention}}}
	for _, kind := range kinds {
		p.add(kind, r.cfg.RetentionByKind[kind])
	}
	return p
}

func (p *purge) add(kind string, retention time.Duration) {
	for i := range p.tasks[1:] {
		if like := &p.tasks[1+i]; like.retention == retention {
			like.Only = append(like.Only, kind)
			return
		}
	}
	p.tasks = append(p.tasks, kept{Purgeable: protocol.Purgeable{Only: []string{kind}}, retention: retention})
}

// pass purges each kind of rows, also if the purge of another kind fails.
func (p *purge) pass(ctx context.Context, now clock) (loop.Result, error) {
	more, err := p.ended(ctx, now)
	errs := []error{err}
	if more && now().Sub(p.others) < othersEvery {
		return loop.Result{More: true}, err
	}
	p.others = now()
	for _, purge := range []func(ctx context.Context, before time.Time, limit int) (int, error){
		p.r.store.PurgeHistory, p.r.store.PurgeRecurrences, p.r.store.PurgeOperations, p.r.store.PurgeGroups,
	} {
		n, err := purge(ctx, p.before(now, p.r.cfg.Retention), purgeBatch)
		more, errs = more || n == purgeBatch, append(errs, err)
	}
	if !more { // it reads small tables whole, and is in no haste
		errs = append(errs, p.queues(ctx, now()))
	}
	return loop.Result{More: more}, errors.Join(errs...)
}

// before is the moment at which a retention began that is over. A row stays until the changed pass has compared it for the last time, or the
// owner's set could keep its entry.
func (p *purge) before(now clock, retention time.Duration) time.Time {
	return now().Add(-max(retention, p.r.unsettled()))
}

// ended deletes tasks that have ended, and measures how far it is behind.
func (p *purge) ended(ctx context.Context, now clock) (more bool, err error) {
	var behind time.Duration
	var errs []error
	for i := range p.tasks {
		k := &p.tasks[i]
		before := p.before(now, k.retention)
		if k.upTo.IsZero() {
			k.upTo = before
		}
		n, goesOn, upTo, err := p.r.store.Purge(ctx, k.Purgeable, before, purgeBatch)
		p.r.metrics.purged.Add(float64(n))
		if err == nil { // else nothing is known of the rows that have passed their retention since
			k.upTo = upTo
		}
		behind = max(behind, before.Sub(k.upTo))
		more, errs = more || goesOn, append(errs, err)
	}
	p.r.metrics.purgeBehind.Set(behind.Seconds())
	return more, errors.Join(errs...)
}

// queues forgets what is left of queues that nobody uses any more, and says so in the history, which told of the limits and pauses.
func (p *purge) queues(ctx context.Context, now time.Time) error {
	queues, err := p.r.store.PurgeQueues(ctx, p.r.cfg.Queues, now, now.Add(-max(p.r.cfg.Retention, queueKept)))
	if len(queues) == 0 {
		return err
	}
	lines := make([]protocol.Event, len(queues))
	for i, queue := range queues {
		lines[i] = protocol.Event{At: now, Name: protocol.EventRetired, Actor: p.r.cfg.Name, Detail: queue}
	}
	return errors.Join(err, p.r.store.Record(ctx, nil, lines))
}
