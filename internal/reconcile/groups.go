package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

const (
	groupsInterval = time.Minute
	groupQuiet     = time.Minute // for so long a group has not changed when its members are counted, to spare busy ones
	groupRecount   = 5 * time.Minute
	groupCountTime = 15 * time.Second // of a group in one pass, a few million members: the other groups wait
	maxLargeGroups = 100              // groups whose count goes on in the next pass
)

// groups counts the members of open groups, and puts their counts right: a member has ended by SQL of somebody else, or by a release that
// does not count. The follower comes then, if that was the last one.
type groups struct {
	r     *Reconciler
	after string                // the last group of the page before
	large map[string]largeGroup // counts that go on
	limit time.Duration         // of a group in one pass; 0: groupCountTime
}

// largeGroup is the count of a group as far as it has come.
type largeGroup struct {
	count group.Count
	after task.ID // the last member; zero: none
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

// count compares a group's counts with its members' rows; false if it has not come to the last one, and goes on in the next pass.
func (g *groups) count(ctx context.Context, name string) (group.Count, bool, error) {
	began, limit := time.Now(), cmp.Or(g.limit, groupCountTime)
	c := g.large[name]
	delete(g.large, name)
	for {
		counted, next, err := g.r.store.CountMembers(ctx, name, c.after, page)
		switch {
		case err != nil:
			return group.Count{}, false, err
		case c.after.IsZero():
			c.count = counted
		case !c.count.Add(counted):
			return group.Count{}, false, nil // members have ended meanwhile: it begins anew
		}
		if c.after = next; next.IsZero() {
			return c.count, true, nil
		}
		if time.Since(began) >= limit {
			break
		}
	}
	if g.large == nil || len(g.large) == maxLargeGroups { // some may have ended since
		g.large = map[string]largeGroup{}
	}
	g.large[name] = c
	return group.Count{}, false, nil
}

func (g *groups) mend(ctx context.Context, name string) error {
	count, over, err := g.count(ctx, name)
	if err != nil || !over {
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
