package schedule

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what a client needs of the database. Our own wiring alone makes one, of internal/store. Its parts are declared
// where they are used.
type Store interface {
	Rows         // tx.go
	transactions // intx.go
	autocommits  // autocommit.go
	ownerPages   // list_page.go
	previews     // bulk.go
	blockedPages // block.go
	groupReader  // tx_group.go
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
		entries []protocol.Entry, next, generation string, err error)
}

// Compensator takes the ids of tasks that the daemon is to index.
type Compensator interface {
	Compensate(ctx context.Context, c protocol.Compensation) error
}

// Config tunes a client; zero values mean the defaults.
type Config struct {
	MaxTries   int           // of a transaction in InTx; default 10
	IndexWait  time.Duration // how long a change of one task, a list and Joined.Index wait for puts; default 50 ms
	PutTimeout time.Duration // of one call to the index; default 500 ms
	Backlog    int           // ids that may wait for compensation; default 131072
	DrainTime  time.Duration // how long Close goes on at most; default 2 s
	Actor      string        // who changes tasks here, in their history; default protocol.ActorService

	// Layout says in which shards an owner's tasks stand, as of at most some seconds ago. It is called for each list of the
	// index. Nil: Tasks reads the database.
	Layout func(ctx context.Context) (protocol.Layout, error)

	// Kinds refuses what nobody would run; nil: nothing is refused.
	Kinds *kinds.Kinds

	// Settler runs due tasks in this client's transactions, for SettleDue; nil: none does.
	Settler Settler

	// BeforeSchedule sees each spec before it is scheduled, and may change or refuse it; nil: none.
	BeforeSchedule SpecFunc
	// InChange sees what each transaction did to tasks before it commits, and may refuse the COMMIT; nil: none.
	InChange InChangeFunc
	// OnChange hears of what each transaction did to tasks after the commit; nil: none.
	OnChange OnChangeFunc

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
	c.Actor = cmp.Or(c.Actor, protocol.ActorService)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Tracer = cmp.Or(c.Tracer, otel.GetTracerProvider())
	return c
}

// Client schedules and changes tasks. It is safe for concurrent use; make one per process and Close it at the end.
type Client struct {
	cfg        Config
	store      Store
	index      Index
	ledger     *ledger.Ledger
	inserts    *batcher.Batcher[task.Spec, answer]
	changes    *batcher.Batcher[change, answer]
	tracer     trace.Tracer
	cancel     context.CancelFunc
	committing sync.WaitGroup // shared statements; Close waits for them first
}

// New makes a client and starts its goroutines, which Close ends. Services get theirs from duetime.Open or pkg/embedded.
func New(cfg Config, store Store, index Index, compensator Compensator) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if store == nil || index == nil || compensator == nil {
		return nil, errors.New("schedule: a client needs a store, an index and a compensator")
	}
	cfg = cfg.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, store: store, index: index, tracer: cfg.Tracer.Tracer(tracerName), cancel: stop}
	c.ledger = ledger.Start(ctx, ledger.Config{
		Puts: ledger.Puts{
			CallerWait: cfg.IndexWait, PutTimeout: cfg.PutTimeout, Backlog: cfg.Backlog, Logger: cfg.Logger, Metrics: cfg.Metrics,
		},
		MaxTries: cfg.MaxTries, InChange: c.inChange(), OnChange: cfg.OnChange,
	}, store, index, compensator)
	c.inserts = batcher.New(batcher.Config[task.Spec]{Calls: concurrentInserts, Items: maxRowsPerStatement}, c.insertRows)
	c.changes = batcher.New(batcher.Config[change]{Calls: concurrentChanges, Items: maxRowsPerStatement}, c.changeRows)
	c.committing.Go(func() { c.inserts.Run(ctx) })
	c.committing.Go(func() { c.changes.Run(ctx) })
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
	c.committing.Wait() // what they commit is put, and has its lines
	c.ledger.Close()
	c.cancel()
}
