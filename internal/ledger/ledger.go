package ledger

import (
	"context"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/indexwriter"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what a ledger needs of the database.
type Store interface {
	Waiting
	// Retryable reports whether the error says that the transaction did not commit and may do so when run again.
	Retryable(err error) bool
	// InsertAutocommit writes the rows of new tasks as a transaction of its own; nil if an id or a key was taken.
	InsertAutocommit(ctx context.Context, specs []task.Spec) ([]task.Task, error)
	// WriteAutocommit writes the next version of a row as a transaction of its own.
	WriteAutocommit(ctx context.Context, c transition.Change) error
}

// Puts tunes what puts into the index.
type Puts = indexwriter.Config

// Config tunes a Ledger, and what follows a commit. InChange and OnChange may be nil.
type Config struct {
	Puts

	MaxTries int // of a transaction

	// InChange and OnChange see what transactions did, before the COMMIT and after it; nil: none does. The list of what the transaction
	// does goes on in InChange.
	InChange func(ctx context.Context, q sqlx.ExtContext, tx *Tx, changes []transition.Change) error
	OnChange func(ctx context.Context, changes []transition.Change)
}

// Ledger commits changes of tasks, and does what follows a commit. It is safe for concurrent use.
type Ledger struct {
	store    Store
	maxTries int
	writer   *indexwriter.Writer
	history  *history
	ticks    *recurrence.Metrics
	hooks    *Hooks
	working  sync.WaitGroup
}

// Start makes a ledger, and begins to write what its transactions leave behind. After the end of ctx the calls of what is left fail.
func Start(ctx context.Context, cfg Config, store Store, index indexwriter.Index, compensator indexwriter.Compensator) *Ledger {
	l := &Ledger{
		store: store, maxTries: cfg.MaxTries, history: newHistory(cfg, store),
		ticks: recurrence.NewMetrics(cfg.Metrics, recurrence.TicksTotal), hooks: newHooks(cfg),
		writer: indexwriter.New(cfg.Puts, index, compensator),
	}
	l.working.Go(func() { l.writer.Run(ctx) })
	l.working.Go(func() { l.history.lines.Run(ctx) })
	if l.hooks != nil {
		l.working.Go(func() { l.hooks.run(ctx) })
	}
	return l
}

// Close waits until everything that was committed is put, compensated or dropped, and OnChange has seen it. Transactions after Close
// commit as before, but are not put.
func (l *Ledger) Close() {
	l.writer.Close()
	l.history.lines.Close()
	if l.hooks != nil {
		l.hooks.commits.Close()
	}
	l.working.Wait()
}

// Writer puts tasks into the index whose transactions somebody else has committed.
func (l *Ledger) Writer() *indexwriter.Writer { return l.writer }

// Hooks see what a transaction did that somebody else commits.
func (l *Ledger) Hooks() *Hooks { return l.hooks }

// Insert writes the rows of new tasks in one statement, and follows. It returns nil if an id or a key was taken.
func (l *Ledger) Insert(ctx context.Context, specs []task.Spec) ([]task.Task, error) {
	made, err := l.store.InsertAutocommit(ctx, specs)
	if err == nil {
		l.hooks.committed(entry{made: made})
		l.writer.Enqueue(ctx, made)
	}
	return made, err
}

// WriteOne writes a transition in one statement, and follows. The actor is that of its line.
func (l *Ledger) WriteOne(ctx context.Context, actor string, c transition.Change) error {
	if err := l.store.WriteAutocommit(ctx, c); err != nil {
		return err
	}
	l.hooks.committed(entry{changes: []transition.Change{c}})
	l.writer.PutDirectly(ctx, []task.Task{c.After})
	event := transition.Changed(c.Before, c.After)
	event.Actor = actor
	l.history.add([]protocol.Event{event})
	return nil
}

// Follow puts the tasks of a committed transaction into the index, and records its changes, behind the caller's back. It waits
// only where callers schedule faster than the index accepts.
func (l *Ledger) Follow(ctx context.Context, tx *Tx) {
	l.writer.Enqueue(ctx, tx.Touched(0))
	l.record(ctx, tx)
}

// record counts the ticks, leaves the lines to the history, calls what wants to know, and wakes what waited for the tasks.
func (l *Ledger) record(ctx context.Context, tx *Tx) {
	l.history.add(tx.Events())
	l.ticks.Count(tx.Ticks())
	for _, e := range tx.list {
		if e.then != nil {
			e.then()
		}
	}
	l.wakeBehind(ctx, tx)
}

// Unknown has the daemon look at the tasks of a transaction of which nobody knows whether it has committed. It never waits.
func (l *Ledger) Unknown(tx *Tx) { l.writer.Compensate(tx.Touched(0)) }
