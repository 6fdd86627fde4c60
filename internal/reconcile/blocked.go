package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/schedule"
)

// blockedFor is how long after its block an owner is looked at: longer than any transaction that began before the block.
const blockedFor = time.Hour

// blocked cancels the pending tasks, and stops the recurrences, of owners who were blocked lately: what a transaction has left that
// asked before the block and committed after it. A worker would cancel each of these tasks only when its time comes.
type blocked struct {
	r     *Reconciler
	after string // the last owner of the page before
}

func (b *blocked) pass(ctx context.Context, now clock) (loop.Result, error) {
	owners, err := b.r.store.LeftOfBlocked(ctx, now().Add(-blockedFor), b.after, page)
	if err != nil {
		return loop.Result{}, err
	}
	var errs []error
	changed := 0
	for _, owner := range owners {
		n, err := b.end(ctx, owner)
		if changed += n; err != nil && !b.r.store.Retryable(err) { // the next run meets the owner again
			errs = append(errs, err)
		}
	}
	if changed > 0 {
		b.r.cfg.Logger.InfoContext(ctx, "tasks of blocked owners cancelled", slog.Int("n", changed))
	}
	if b.after = ""; len(owners) == page {
		b.after = owners[page-1]
	}
	return loop.Result{More: len(owners) == page}, errors.Join(errs...)
}

// end returns how many tasks it has cancelled.
func (b *blocked) end(ctx context.Context, owner string) (int, error) {
	tx, err := ledger.Transact(ctx, b.r.store, b.r.cfg.Hooks, func(began *sqlx.Tx) (*ledger.Tx, error) {
		changes := schedule.Inside(inside.Key{}, schedule.NewTx(began, b.r.store).As(b.r.cfg.Name))
		if err := changes.EndBlocked(ctx, owner); err != nil {
			return changes.Ledger(), err
		}
		return changes.Ledger(), changes.Ledger().Record(ctx)
	})
	if err != nil {
		return 0, fmt.Errorf("cancel what is left of blocked owner %s: %w", owner, err)
	}
	return len(tx.Touched(0)), b.r.follow(ctx, "compensated", tx)
}
