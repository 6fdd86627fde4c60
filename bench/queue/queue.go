// Package queue is a delayed-task system as the benchmark sees it, whoever made it.
package queue

import (
	"context"
	"time"
)

// Job is one task: the same in every system. Its number travels in the payload, with its due time, so that each handler
// can tell how late it began.
type Job struct {
	ID  int64 // 0 and up; also the number of the pet that the effect feeds
	Due int64 // Unix µs

	Owner int64 `json:"-"` // whom it belongs to; jobs of one owner can be moved together. No message of a peer carries it
}

// At is the due time.
func (j Job) At() time.Time { return time.UnixMicro(j.Due) }

// Queue is one system, opened on running servers. Its methods may be called side by side, Close last.
type Queue interface {
	// Schedule makes the jobs, by the system's bulk call where it has one, and returns when all are as durable as the
	// system makes them.
	Schedule(ctx context.Context, jobs []Job) error
	// Work runs e.Do for each job that becomes due until ctx ends, then returns nil.
	Work(ctx context.Context, e *Effects) error
	Close() error
}

// Mover is a Queue whose pending jobs can be moved.
type Mover interface {
	// Move gives the pending job another due time.
	Move(ctx context.Context, j Job) error
}

// OwnerMover is a Queue that moves all pending jobs of an owner in one call.
type OwnerMover interface {
	// MoveOwner moves them by d and tells how many there were.
	MoveOwner(ctx context.Context, owner int64, d time.Duration) (int, error)
}

// Accepter is a Queue that writes the durable row itself. For every other, the driver inserts one into bench_tasks first.
type Accepter interface {
	// Accept makes the jobs with a durable row each, as a service does in one call.
	Accept(ctx context.Context, jobs []Job) error
}

// RowAccepter is a Queue that makes jobs in transactions of its callers.
type RowAccepter interface {
	// AcceptWithRow makes the job and inserts a row of bench_tasks in one transaction.
	AcceptWithRow(ctx context.Context, j Job) error
}

// Reader is a Queue that can have what is due of an owner take effect before a read.
type Reader interface {
	// Read reads the job's pet in a transaction; fresh says that what is due of the job's owner takes effect in it before.
	Read(ctx context.Context, j Job, fresh bool) error
}

// Settler is a Queue that commits effects itself and counts them when the commit has been answered.
type Settler interface {
	Settled() int64
}

// Lagger is a Queue that measures by itself how long after the due time effects commit.
type Lagger interface {
	// Lags returns for each bound in seconds how many effects committed within it.
	Lags() map[float64]uint64
}

// Env says where the servers are, and what is asked of this process. An address is empty where its server does not run.
type Env struct {
	System   string `json:"system"` // its name in the table
	Role     string `json:"role"`   // produce or work
	Dir      string `json:"dir"`    // a folder of its own on disk
	MySQL    string `json:"mysql"`  // DSN of go-sql-driver/mysql
	Redis    string `json:"redis"`  // host:port
	Postgres string `json:"postgres"`
	AMQP     string `json:"amqp"`
	RocketMQ string `json:"rocketmq"` // of its name server
	// Workers is how many handlers may run side by side; each system gets the same.
	Workers int `json:"workers"`
	// Rescue asks for settings by which what a killed worker was running is run again soon.
	Rescue bool `json:"rescue"`
}
