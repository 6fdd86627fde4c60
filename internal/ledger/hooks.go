package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

const (
	maxQueuedCommits = 1000            // commits whose changes wait for OnChange, some MB; later ones are dropped
	hookTimeout      = 5 * time.Second // of one call of OnChange
)

// Hooks are a service's functions that see changes of tasks: one within each transaction, one after each commit. Nil hooks see nothing.
type Hooks struct {
	in      func(ctx context.Context, q sqlx.ExtContext, tx *Tx, changes []transition.Change) error // nil: none
	on      func(ctx context.Context, changes []transition.Change)                                  // nil: none
	dropped prometheus.Counter
	logger  *slog.Logger
	commits *batcher.Batcher[[]transition.Change, struct{}]
}

func newHooks(cfg Config) *Hooks {
	if cfg.InChange == nil && cfg.OnChange == nil {
		return nil
	}
	h := &Hooks{
		in: cfg.InChange, on: cfg.OnChange, logger: cfg.Logger,
		dropped: metric.Shared(cfg.Metrics, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_changes_dropped_total",
			Help: "Commits of which OnChange was not told: too many waited, or the client was closed.",
		})),
	}
	bounds := batcher.Config[[]transition.Change]{Calls: 1, Items: 1, Queue: maxQueuedCommits}
	h.commits = batcher.New(bounds, h.callOn)
	return h
}

// before calls InChange with what the transaction did, just before its COMMIT.
func (h *Hooks) before(ctx context.Context, tx *Tx) error {
	if h == nil || h.in == nil {
		return nil
	}
	return h.callIn(ctx, tx, tx.Changes())
}

// callIn answers an error after which the transaction must not commit. A panic is one too: it would end a worker's process.
func (h *Hooks) callIn(ctx context.Context, tx *Tx, changes []transition.Change) (err error) {
	if len(changes) == 0 {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			h.logger.ErrorContext(ctx, "function InChange panicked", slog.Any("err", v), slog.String("stack", string(debug.Stack())))
			err = fmt.Errorf("InChange panicked: %v", v)
		}
	}()
	if err := h.in(ctx, tx.q, tx, changes); err != nil {
		return fmt.Errorf("InChange: %w", err)
	}
	return tx.Err() // InChange may have passed over it
}

// Committed has OnChange called with what the transaction did. It never waits.
func (h *Hooks) Committed(tx *Tx) {
	if h != nil && h.on != nil {
		h.report(tx.Changes())
	}
}

// committed is Committed for a statement that was a transaction of its own.
func (h *Hooks) committed(e entry) {
	if h != nil {
		h.Committed(&Tx{list: []entry{e}})
	}
}

func (h *Hooks) report(changes []transition.Change) {
	if len(changes) > 0 {
		h.dropped.Add(float64(h.commits.Add(changes)))
	}
}

// run calls OnChange until everything was reported, after Close. It doesn't wait for a call that ignores the end of ctx.
func (h *Hooks) run(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.commits.Run(ctx)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

func (h *Hooks) callOn(ctx context.Context, commits [][]transition.Change) ([]struct{}, error) {
	if ctx.Err() != nil {
		h.dropped.Inc()
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			h.logger.ErrorContext(ctx, "function OnChange panicked", slog.Any("err", v), slog.String("stack", string(debug.Stack())))
		}
	}()
	h.on(ctx, commits[0])
	return nil, nil
}

// Changes returns what the transaction did to each task, in the order of the first write: the task as it was before the transaction,
// empty if the transaction made it, and its last version.
func (t *Tx) Changes() (changes []transition.Change) {
	at := map[task.ID]int{}
	add := func(c transition.Change) {
		i, seen := at[c.After.ID]
		switch {
		case !seen:
			at[c.After.ID] = len(changes)
			changes = append(changes, c)
		case c.After.Version >= changes[i].After.Version:
			changes[i].After = c.After
		}
	}
	for _, e := range t.list {
		for _, row := range e.made {
			add(transition.Change{After: row})
		}
		for _, c := range e.changes {
			add(c)
		}
	}
	return changes
}

// standing returns those of the changes that are committed as the transaction wrote them. The others were taken back, or somebody has
// changed the task since.
func (t *Tx) standing(committed []task.Task) (changes []transition.Change) {
	rows, wrote := protocol.ByID(committed), map[task.ID]bool{}
	for row := range t.Written(0) {
		is := rows[row.ID]
		wrote[row.ID] = wrote[row.ID] || is.Version == row.Version && is.State == row.State &&
			is.DueAt.Equal(row.DueAt) && is.RunAt.Equal(row.RunAt) && is.UpdatedAt.Equal(row.UpdatedAt)
	}
	for _, c := range t.Changes() {
		if id := c.After.ID; wrote[id] {
			changes = append(changes, transition.Change{Before: c.Before, After: rows[id]})
		}
	}
	return changes
}
