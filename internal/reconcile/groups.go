package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
)

const (
	groupsInterval = time.Minute
	groupQuiet     = time.Minute // for so long a group has not changed when its members are counted, to spare busy ones
	groupRecount   = 5 * time.Minute
	groupCountTime = 15 * time.Second // of one count, a few million members; less than connections wait for an answer
)

// groups counts the members of open groups, and puts their counts right: a member has ended by SQL of somebody else, or by a release that
// does not count. The follower comes then, if that was the last one.
type groups struct {
	r     *Reconciler
	after string // the last group of the page before
}

func (g *groups) pass(ctx context.Context, now clock) (loop.Result, error) {
	names, err := g.r.store.Unchecked(ctx, now().Add(-groupQuiet), now().Add(-groupRecount), g.after, page)
	if err != nil {
		return loop.Result{}, err
	}
	var errs []error
	for _, name := range names {
		if err := g.mend(ctx, name); err != nil && !g.r.store.Retryable(err) { // the next run meets the group again
			errs = append(errs, err)
		}
	}
	if g.after = ""; len(names) == page {
		g.after = names[page-1]
	}
	return loop.Result{More: len(names) == page}, errors.Join(errs...)
}

// count compares a group's counts with its members' rows. A count that takes too long finds nothing, until the next one.
func (g *groups) count(ctx context.Context, name string) (group.Count, error) {
	limited, cancel := context.WithTimeout(ctx, groupCountTime)
	defer cancel()
	count, err := g.r.store.CountMembers(limited, name)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		g.r.cfg.Logger.WarnContext(ctx, "members of a group not counted in time", slog.String("group", name), slog.Any("err", err))
		return group.Count{}, nil
	}
	return count, err
}

func (g *groups) mend(ctx context.Context, name string) error {
	count, err := g.count(ctx, name)
	if err != nil {
		return err
	}
	if count.Uncounted() == 0 {
		return g.r.store.MarkChecked(ctx, name)
	}
	n := 0
	tx, err := ledger.Transact(ctx, g.r.store, g.r.cfg.Hooks, func(began *sqlx.Tx) (*ledger.Tx, error) {
		tx := ledger.NewTx(began, g.r.store, g.r.cfg.Name)
		now, err := tx.Now(ctx)
		if err != nil {
			return tx, err
		}
		var out group.Outcome
		if out, n, err = group.Mend(ctx, began, g.r.store, name, count, now); err != nil {
			return tx, err
		}
		return tx, tx.Followed(ctx, out)
	})
	if err != nil || n == 0 {
		return err
	}
	g.r.metrics.groupsMended.Add(float64(n))
	g.r.cfg.Logger.WarnContext(ctx, "members of a group ended without being counted", slog.String("group", name), slog.Int("n", n))
	return g.r.follow(ctx, "compensated", tx)
}
