package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what the passes need of MySQL. Rows, time and epochs must come from a server that can be written: after a
// switch-over an open connection may lead to the old primary, whose rows would make the index wrong. A nil q means a
// pooled connection.
type Store interface {
	// Entries reads the columns that index entries need; missing ids are absent from the answer.
	Entries(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Floor returns a moment before which no row is pending, as far as is known.
	Floor(ctx context.Context) (time.Time, error)
	// PendingExcept reads pending rows due in [from, to), by (run_at, id), but for the rows of some queues. It looks at limit rows
	// and returns where the next page begins; zero after the last page.
	PendingExcept(ctx context.Context, except []string, from, to time.Time, after protocol.Cursor, limit int) ([]task.Task, protocol.Cursor, error)
	Changed(ctx context.Context, from, to time.Time, after protocol.Cursor, limit int) ([]task.Task, error)
	// Purge deletes finished tasks that have not changed since before, up to limit in each table, and returns whether there may be more,
	// and up to where there are none.
	Purge(ctx context.Context, of protocol.Purgeable, before time.Time, limit int) (n int, more bool, upTo time.Time, err error)
	// Archive moves up to limit tasks that ended before the moment to a table of their own, and reports whether there may be more.
	Archive(ctx context.Context, before time.Time, limit int) (n int, more bool, err error)
	// PurgeHistory deletes up to limit lines of the history, and returns their number.
	PurgeHistory(ctx context.Context, before time.Time, limit int) (int, error)
	// Paused returns the queues that an operator has paused, and since when.
	Paused(ctx context.Context) (map[string]time.Time, error)
	// ResumedPauses returns pauses that were resumed before their ends. ForgetPauses deletes up to limit pauses whose ends were
	// before a moment, and those of whole queues, whose names it returns.
	ResumedPauses(ctx context.Context, after protocol.Pause, limit int) ([]protocol.Pause, error)
	DropPauses(ctx context.Context, read []protocol.Pause) error
	PausesOf(ctx context.Context, q sqlx.QueryerContext, owners []string) (protocol.Pauses, error)
	ForgetPauses(ctx context.Context, before time.Time, limit int) (n int, queues []string, err error)
	// RecentLayout returns the layout as it was some seconds ago at most. That is enough to find misplaced rows: Rehome moves none
	// if the layout has changed since.
	RecentLayout(ctx context.Context) (protocol.Layout, error)
	// DeadPage reads dead rows, by (run_at, id).
	DeadPage(ctx context.Context, after protocol.Cursor, limit int) ([]task.Task, error)
	// Rehome moves those of the rows that are misplaced by the layout to their owners' places, and returns them with their new
	// shards. It leaves rows that a transaction holds. It returns protocol.ErrLayoutChanged if the layout has changed.
	Rehome(ctx context.Context, l protocol.Layout, ids []task.ID) ([]task.Task, error)
	// CountPlaced counts the rows that Rehome may be about: pending and dead ones. SetToMove records how many will move.
	CountPlaced(ctx context.Context) (int64, error)
	SetToMove(ctx context.Context, l protocol.Layout, n int64) error
	// EndChange ends the layout's change, with a line of the history; protocol.ErrLayoutChanged if the layout has changed.
	EndChange(ctx context.Context, l protocol.Layout, line protocol.Event) error
	// ShardsChanged returns when a change of the number of shards last began or ended, by the newest lines of the history; zero
	// if these don't say.
	ShardsChanged(ctx context.Context) (time.Time, error)
	// SetHorizon changes the layout's horizon and whether the index is partial, with a line of the history;
	// protocol.ErrLayoutChanged if they are no longer as l says.
	SetHorizon(ctx context.Context, l protocol.Layout, horizon time.Duration, partial bool, line protocol.Event) error
	// DueRecurrences reads a page of the active recurrences whose newest task was to be due before the moment, by (due_at, id).
	DueRecurrences(ctx context.Context, before time.Time, after protocol.Cursor, limit int) ([]task.Recurrence, error)
	// PurgeRecurrences is PurgeHistory for recurrences that were stopped.
	PurgeRecurrences(ctx context.Context, before time.Time, limit int) (int, error)
	// PurgeGroups is PurgeHistory for groups that have ended, and of whose members no row is left.
	PurgeGroups(ctx context.Context, before time.Time, limit int) (int, error)
	// PurgeQueues forgets rows of queues that nobody has used since before, but for these, and returns their names.
	PurgeQueues(ctx context.Context, configured []string, now, before time.Time) ([]string, error)
	// Unchecked reads, by name, open groups after this one that have not changed since a moment, and were not checked since another one.
	Unchecked(ctx context.Context, changed, checked time.Time, after string, limit int) ([]string, error)
	// CountMembers reads a group's counts and a page of its members' rows, behind one, at one moment and without a lock. It
	// returns where the next page begins; zero after the last one. MarkChecked notes that they were compared.
	CountMembers(ctx context.Context, name string, after task.ID, limit int) (group.Count, task.ID, error)
	MarkChecked(ctx context.Context, name string) error
	// LeftOfBlocked reads, by name, the owners after this one that were blocked at the moment or later, and have tasks or recurrences.
	LeftOfBlocked(ctx context.Context, since time.Time, after string, limit int) ([]string, error)
	schedule.Rows
	ledger.Waiting
	operated // operation_page.go
	// Moment returns the database's time and the newest epoch of this name.
	Moment(ctx context.Context, name string) (now time.Time, epoch int64, err error)
}

// Index is what the passes need of Redis.
type Index interface {
	// Put writes committed rows, each unless the index has a newer version.
	Put(ctx context.Context, tasks []task.Task) error
	Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error)
	Repair(ctx context.Context, repairs []protocol.Repair) (changed int, err error)
	// Fill puts tasks that are in neither set, and returns those whose entries differ.
	Fill(ctx context.Context, tasks []task.Task) (otherwise []task.Task, err error)
	Marked(ctx context.Context, shards int) ([]bool, error)
	BeginRebuild(ctx context.Context, shard int) (token string, err error)
	EndRebuild(ctx context.Context, shard int, token string) (bool, error)
	ScanDue(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error)
	ScanOwners(ctx context.Context, shard int, cursor protocol.ScanCursor, count int64) ([]protocol.Entry, protocol.ScanCursor, error)
	Remove(ctx context.Context, shard int, e protocol.Entry) (bool, error)
	Identity(ctx context.Context) (string, error)
	Uptime(ctx context.Context) (time.Duration, error)
}

// Stream is what the passes need of Kafka.
type Stream interface {
	// Compensations delivers messages until ctx is done. A batch counts as read only after fn returned nil.
	Compensations(ctx context.Context, fn func(ctx context.Context, batch []protocol.Compensation) error) error
	// Backlog returns what the workers of a queue have not read yet.
	Backlog(ctx context.Context, queue string) (Backlog, error)
}

// Backlog is one queue's unread hints at one moment. Explains and Clear answer false if the backlog is not known. An
// owner here is a key of protocol.RouteKey. Backlog is an alias of an unnamed interface, so that package stream implements
// it without importing this package.
type Backlog = interface {
	// Explains reports whether the first unread hint of the owner's partition was appended at or before the moment.
	Explains(owner string, by time.Time) bool
	// Clear reports whether every hint of the owner's partition was read.
	Clear(owner string) bool
	// Partition returns the owner's partition.
	Partition(owner string) int
}

// Term is the leadership under which the passes run.
type Term interface {
	Fenced(stored int64)
	Progress()
}

// Config times the passes.
type Config struct {
	Name      string        // of the epoch counter: "daemon"
	Interval  time.Duration // between passes of lookahead and overdue; default 2 s
	Lookahead time.Duration // how far ahead rows are compared; 0: the next few passes
	Grace     time.Duration // after its time, until a row is overdue; default 2 s
	Retention time.Duration // of finished rows; default 168 h

	RetentionByKind map[string]time.Duration // of these kinds' tasks that are done or cancelled

	Longest   time.Duration // longest transaction expected; default 10 s
	AuditRate int           // rows, and members, compared a second once drift was found; default 8000
	Settle    time.Duration // from a change of the layout until all processes know it; default 10 s
	Horizon   time.Duration // how far ahead tasks stand in the index; 0: all do
	Queues    []string      // of the configuration
	Layout    func(ctx context.Context) (protocol.Layout, error)
	Hooks     *ledger.Hooks // see what a transaction did; nil: none
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
	Loops     *loop.Successes // nil: none
}

// ErrFenced ends a term: a newer daemon leads.
var ErrFenced = errors.New("fenced by a newer epoch")

// Reconciler runs the passes of one process.
type Reconciler struct {
	cfg        Config
	store      Store
	index      Index
	stream     Stream
	metrics    *metrics
	wake       chan struct{} // a rebuild was asked for
	alarms     atomic.Int64  // times that a pass found a reason to audit everything
	uncompared uncomparedShards
	justMoved  justMoved // rows on their way to another shard
	fed        fed
	filling    atomic.Bool            // a rebuild is under way, or may be needed: unread
	unread     atomic.Bool            // the term has not yet read the markers
	filled     atomic.Pointer[string] // Index.Identity of the servers whose every shard the term has rebuilt; nil: none

	wakeRows, wakeIndex chan struct{} // of the audits
}

// New checks the configuration; Layout is required. Without an index (nil) there is nothing to compare, and only the passes
// over rows run.
func New(cfg Config, store Store, index Index, stream Stream) (*Reconciler, error) {
	if cfg.Layout == nil {
		return nil, errors.New("reconcile: Layout must be set")
	}
	cfg.Name = cmp.Or(cfg.Name, "daemon")
	cfg.Interval = cmp.Or(cfg.Interval, 2*time.Second)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, 168*time.Hour)
	cfg.Longest = cmp.Or(cfg.Longest, 10*time.Second)
	cfg.Settle = cmp.Or(cfg.Settle, 10*time.Second)
	cfg.AuditRate = cmp.Or(cfg.AuditRate, 8000)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Reconciler{
		cfg: cfg, store: bounded{store}, index: index, stream: stream,
		metrics: newMetrics(cfg.Metrics), wake: make(chan struct{}, 1),
		wakeRows: make(chan struct{}, 1), wakeIndex: make(chan struct{}, 1),
	}, nil
}

// Lead runs all passes side by side until ctx ends or a newer daemon leads (ErrFenced).
func (r *Reconciler) Lead(ctx context.Context, epoch int64, term Term) error {
	r.filling.Store(true) // until the markers were read: an audit would take missing entries of lost shards for drift
	r.unread.Store(true)
	r.filled.Store(nil)
	r.fed.set(time.Time{})
	defer r.metrics.toRehome.Set(0)
	defer r.metrics.operations.Set(0)
	defer r.metrics.purgeBehind.Set(0)
	running, ctx := errgroup.WithContext(ctx)
	for _, p := range r.passes() {
		running.Go(func() error { return r.repeat(ctx, p, epoch, term) })
	}
	if r.index == nil {
		return running.Wait()
	}
	running.Go(func() error {
		err := r.stream.Compensations(ctx, r.compensate)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the term ended
		}
		return err
	})
	return running.Wait()
}

// rebuilding reports whether a rebuild is under way.
func (r *Reconciler) rebuilding() bool { return r.filling.Load() && !r.unread.Load() }
