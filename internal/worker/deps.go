package worker

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

// Store is what a worker needs of MySQL: the hot path, the clock, the handovers of partitions, and what operators ask.
type Store interface {
	settle.Store
	Handovers
	Looks
	Requests
	Limits
	// Clock reads the database's clock as finely as it tells.
	Clock(ctx context.Context) (time.Time, error)
}

// Handovers say which partitions were left with nothing running.
type Handovers interface {
	// TakeOver makes the run of a worker the holder of the queue's partitions, and returns those that their last holder left
	// with nothing running.
	TakeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error)
	// HandOver records that the holder left those of the partitions that are still its own, with nothing running.
	HandOver(ctx context.Context, queue, holder string, parts []int, now time.Time) error
}

// Looks find pending tasks by their next try, and tell people when they stand in for hints.
type Looks interface {
	Record(ctx context.Context, q sqlx.ExtContext, events []protocol.Event) error
	// Pending reads a page of the tasks of all queues with a next try in [from, to).
	Pending(ctx context.Context, from, to time.Time, after protocol.Cursor, limit int) ([]task.Task, error)
	// Floor returns a moment before which no task is pending, as far as is known.
	Floor(ctx context.Context) (time.Time, error)
	// Look reads the tasks of a page that the look asks for, and returns where the next page begins; zero for none.
	Look(ctx context.Context, l protocol.Look) (tasks []task.Task, next protocol.Cursor, err error)
}

// Requests are what operators, and handlers, ask of workers.
type Requests interface {
	// Pauses returns the pauses that stand: whose tasks are to be left alone, and until when.
	Pauses(ctx context.Context) ([]protocol.Pause, error)
}

// Limits are what the workers of a queue share of its limit.
type Limits interface {
	// Limits returns the state of all queues that have one.
	Limits(ctx context.Context) (map[string]limit.State, error)
	// Limit returns the state of a queue; its version is 0 if it has none.
	Limit(ctx context.Context, queue string) (limit.State, error)
	// SaveLimit writes a state, if nobody else did since it was read; else it returns false.
	SaveLimit(ctx context.Context, st limit.State) (bool, error)
}

// Stream is Kafka as a member of a group sees it.
type Stream interface {
	// Consume joins the queue's group, calls fn once for each generation with a context that ends with it, and joins
	// again when fn has returned, until ctx is done.
	Consume(ctx context.Context, queue string, fn func(ctx context.Context, s protocol.Session) error) error
}

// Index takes the current state of tasks after a commit. It never waits, and compensates what it could not put.
type Index interface {
	Offer(tasks []task.Task)
}

// Buryer takes what no worker will ever run.
type Buryer interface {
	Bury(ctx context.Context, letters []protocol.DeadLetter) error
}
