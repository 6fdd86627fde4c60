package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/indexwriter"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what a client needs of the database.
type Store interface {
	Rows
	// Begin starts a transaction at READ COMMITTED, which ends with ctx. A transaction that the server has rolled back
	// must refuse every further statement and COMMIT.
	Begin(ctx context.Context) (*sqlx.Tx, error)
	// Retryable reports whether the error says that the transaction did not commit and may do so when run again.
	Retryable(err error) bool
	// Ambiguous reports whether the error of a commit leaves open if it took effect.
	Ambiguous(err error) bool

	// InsertAutocommit writes the rows of new tasks as a transaction of its own; nil if an id or a key was taken.
	InsertAutocommit(ctx context.Context, specs []task.Spec) ([]task.Task, error)
	// LockFree locks those of the rows that nobody else has locked, and gives the database's time of that moment.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// ReadFree reads a row that nobody has locked, with the database's time; false if there is none.
	ReadFree(ctx context.Context, id task.ID) (task.Task, time.Time, bool, error)
	// SaveAutocommit writes the next version of a row as a transaction of its own.
	SaveAutocommit(ctx context.Context, t task.Task) error
	// ListOwnerPage reads a page of the owner's pending rows by (run_at, id), after the cursor; fewer than limit are the last.
	ListOwnerPage(ctx context.Context, owner string, after task.Cursor, limit int) ([]task.Task, error)
	// Unclear reports whether an error of these leaves open if it took effect.
	Unclear(err error) bool
}

// Index is what a client needs of the wake-up index.
type Index interface {
	// Put makes the index hold the tasks as given, unless it knows newer versions; nil only if all were taken. Of one task
	// given twice, the higher version counts.
	Put(ctx context.Context, tasks []task.Task) error
	// OwnerPage lists up to limit of the owner's pending tasks, of a kind or ("") of any, by their next try, from a place on
	// that an answer before has given as its next one; "" begins and ends. Generation names the memory that the answer is of;
	// it is empty from when the shard lost it until it was rebuilt.
	OwnerPage(ctx context.Context, shard int, owner, kind, place string, limit int) (
		entries []task.Entry, next, generation string, err error)
}

// Compensator takes the ids of tasks that the daemon is to index.
type Compensator interface {
	Compensate(ctx context.Context, c task.Compensation) error
}

// Config tunes a client; zero values mean the defaults.
type Config struct {
	MaxTries   int           // of a transaction in InTx; default 10
	IndexWait  time.Duration // how long a change of one task, a list and IndexTasks wait for puts; default 50 ms
	PutTimeout time.Duration // of one call to the index; default 500 ms
	Backlog    int           // most ids that wait for compensation; default 131072
	DrainTime  time.Duration // how long Close goes on at most; default 2 s
	Actor      string        // who changes tasks here, in their history; default task.ActorService

	// Layout says in which shards an owner's tasks stand. The answer is kept for a minute. Nil: Tasks reads the database.
	Layout func(ctx context.Context) (task.Layout, error)

	// Kinds refuses what nobody would run; nil: nothing is refused.
	Kinds *Kinds

	Logger  *slog.Logger          // default slog.Default
	Metrics prometheus.Registerer // nil: none
	Tracer  trace.TracerProvider  // nil: the global one
}

// Validate refuses what can't work.
func (c Config) Validate() error {
	if c.MaxTries < 0 || c.IndexWait < 0 || c.PutTimeout < 0 || c.Backlog < 0 || c.DrainTime < 0 {
		return errors.New("schedule: numbers and durations must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.MaxTries = cmp.Or(c.MaxTries, 10)
	c.IndexWait = cmp.Or(c.IndexWait, 50*time.Millisecond)
	c.PutTimeout = cmp.Or(c.PutTimeout, 500*time.Millisecond)
	c.Backlog = cmp.Or(c.Backlog, 1<<17)
	c.DrainTime = cmp.Or(c.DrainTime, 2*time.Second)
	c.Actor = cmp.Or(c.Actor, task.ActorService)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Tracer = cmp.Or(c.Tracer, otel.GetTracerProvider())
	return c
}

// Client schedules and changes tasks. It is safe for concurrent use; make one per process and Close it at the end.
type Client struct {
	cfg     Config
	store   Store
	index   Index
	writer  *indexwriter.Writer
	history *history
	inserts *batcher.Batcher[task.Spec, wrote]
	changes *batcher.Batcher[change, wrote]
	tracer  trace.Tracer
	layout  layoutCache
	cancel  context.CancelFunc
	writing sync.WaitGroup // of those that commit; Close waits for them first
	running sync.WaitGroup // of those that put, compensate and tell of it
}

// New makes a client and starts its goroutines, which Close ends.
func New(cfg Config, store Store, index Index, compensator Compensator) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if store == nil || index == nil || compensator == nil {
		return nil, errors.New("schedule: a client needs a store, an index and a compensator")
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, store: store, index: index, history: newHistory(cfg, store), tracer: cfg.Tracer.Tracer(tracerName)}
	c.writer = indexwriter.New(indexwriter.Config{
		CallerWait: cfg.IndexWait, PutTimeout: cfg.PutTimeout, Backlog: cfg.Backlog, Logger: cfg.Logger, Metrics: cfg.Metrics,
	}, index, compensator)
	c.inserts = batcher.New(batcher.Config[task.Spec]{Calls: concurrentInserts, Items: maxRowsPerStatement}, c.insert)
	c.changes = batcher.New(batcher.Config[change]{Calls: concurrentChanges, Items: maxRowsPerStatement}, c.makeChanges)
	c.shards.read = cfg.Shards
	ctx, stop := context.WithCancel(context.Background())
	c.cancel = stop
	c.writing.Go(func() { c.inserts.Run(ctx) })
	c.writing.Go(func() { c.changes.Run(ctx) })
	c.running.Go(func() { c.writer.Run(ctx) })
	c.running.Go(func() { c.history.lines.Run(ctx) })
	return c, nil
}

// Close puts and compensates what is waiting, until ctx ends or Config.DrainTime has passed, and stops. What is left then
// is dropped and counted; the daemon's sweeps find it. Transactions after Close commit as before, but aren't put.
func (c *Client) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DrainTime)
	defer cancel()
	unhook := context.AfterFunc(ctx, c.cancel)
	defer unhook()
	c.inserts.Close()
	c.changes.Close()
	c.writing.Wait() // what they commit is put and told
	c.writer.Close()
	c.history.lines.Close()
	c.running.Wait()
	c.cancel()
}

// InTx runs fn in a transaction at READ COMMITTED and commits. The tasks that it touched are put into the index behind the
// caller's back, unless others in bulk make more than the index takes: then it waits for its turn, as IndexTasks does.
// After a deadlock or a lock wait it runs fn again, whole and in a new transaction, so fn must set what it returns afresh
// each time. It returns nil exactly if the transaction committed, whatever became of the index. An error of fn rolls back
// and comes out as it is; so does a panic. After ErrCommitUnknown, fn has run and may have committed; it is never run again
// then. task.ErrRunning comes out at once: its try has waited for the lock already.
//
// tx ends with fn, and with ctx.
func (c *Client) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	var last error
	tries := 0
	tx, err := backoff.Retry(ctx, func() (*Tx, error) {
		tries++
		tx, err := c.try(ctx, fn)
		if err != nil {
			last = err
			if !c.again(err) {
				return nil, backoff.Permanent(err)
			}
		}
		return tx, err
	}, backoff.WithBackOff(jitter()), backoff.WithMaxTries(uint(c.cfg.MaxTries)), backoff.WithMaxElapsedTime(0))
	switch {
	case err == nil:
		c.writer.Enqueue(ctx, tx.Touched())
		c.history.add(tx.Events())
		return nil
	case !c.again(last):
		return last
	case ctx.Err() != nil:
		return fmt.Errorf("transaction given up: %w, after %w", ctx.Err(), last)
	default:
		return &givenUp{tries: tries, cause: last}
	}
}

// again reports whether the whole transaction may be run once more now.
func (c *Client) again(err error) bool {
	if errors.Is(err, ErrCommitUnknown) || errors.Is(err, task.ErrRunning) {
		return false
	}
	return IsRetryable(err) || c.store.Retryable(err)
}

// jitter spreads the tries of transactions that met in a deadlock, so that they don't meet again.
func jitter() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 8 * time.Millisecond
	b.RandomizationFactor = 0.9
	b.Multiplier = 2
	b.MaxInterval = 500 * time.Millisecond
	return b
}

// try is one transaction from BEGIN to COMMIT; it gives what committed.
func (c *Client) try(ctx context.Context, fn func(tx *Tx) error) (*Tx, error) {
	began, err := c.store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	ended := false
	defer func() {
		if !ended { // also when fn panics
			_ = began.Rollback() // the server rolls back by itself when this can't be said
		}
	}()
	tx := NewTx(began, c.store)
	tx.actor, tx.kinds = c.cfg.Actor, c.cfg.Kinds
	tx.tracer = c.tracer
	if err := fn(tx); err != nil {
		return nil, err
	}
	if err := tx.Err(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	ended = true
	return tx, c.committed(began.Commit(), tx.Touched())
}

// committed reads the answer of a COMMIT. After a lost one the daemon is to look at the tasks.
func (c *Client) committed(err error, touched []task.Task) error {
	if err == nil {
		return nil
	}
	if c.store.Ambiguous(err) {
		c.writer.Compensate(touched)
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return fmt.Errorf("commit: %w", err)
}

// IndexTasks puts tasks whose transaction somebody else committed, and waits for that at most Config.IndexWait, and that again
// for each 100 tasks, with compensation behind it; and before, while others in bulk make more than the index takes, for its
// turn: at most IndexWait, and that again for each 10.
func (c *Client) IndexTasks(ctx context.Context, tasks []task.Task) { c.writer.PutAndWait(ctx, tasks) }

func inTx(ctx context.Context, c *Client, change func(tx *Tx) (task.Task, error)) (out task.Task, err error) {
	err = c.InTx(ctx, func(tx *Tx) error {
		out, err = change(tx)
		return err
	})
	if err != nil {
		return task.Task{}, err
	}
	return out, nil
}
