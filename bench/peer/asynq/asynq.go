// Package asynq puts hibiken/asynq under the benchmark: tasks in Redis, one Lua call each to schedule, fetch and finish.
//
// It keeps due times in whole seconds, cut off, so a task may start up to a second early. It has no call that makes
// many tasks, and none that moves a pending one: its Inspector can run it now, archive it or delete it. Deleting and
// enqueuing again is no move: a crash between the two loses the task, so this queue is no queue.Mover.
package asynq

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	hibiken "github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/queue"
)

const (
	kind = "pet.meal"
	// connections to Redis, and how many tasks of a bulk are enqueued side by side: go-redis would open 10 a core.
	connections = 64
	// interval of both polls. They default to 1 s for pending tasks and 5 s for scheduled ones; the Config type's
	// comments name these two fields for lower lag, at the price of commands on an idle Redis, and set no lower bound.
	interval = time.Millisecond
)

// Queue is a client and, while it works, a server.
type Queue struct {
	redis  hibiken.RedisClientOpt
	config hibiken.Config
	client *hibiken.Client
}

// Open opens asynq tuned for low lag.
func Open(ctx context.Context, env queue.Env) (queue.Queue, error) {
	return open(ctx, env, hibiken.Config{TaskCheckInterval: interval, DelayedTaskCheckInterval: interval})
}

// OpenDefaults opens asynq as it comes. Only the concurrency is set, as in every system: the default is one a core.
func OpenDefaults(ctx context.Context, env queue.Env) (queue.Queue, error) {
	return open(ctx, env, hibiken.Config{})
}

func open(_ context.Context, env queue.Env, config hibiken.Config) (queue.Queue, error) {
	config.Concurrency, config.LogLevel = env.Workers, hibiken.WarnLevel
	q := &Queue{redis: hibiken.RedisClientOpt{Addr: env.Redis, PoolSize: max(connections, 2*env.Workers)}, config: config}
	q.client = hibiken.NewClient(q.redis)
	if err := q.client.Ping(); err != nil {
		return nil, fmt.Errorf("reach redis: %w", err)
	}
	return q, nil
}

// Schedule enqueues the tasks one by one, many at a time.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connections)
	for _, j := range jobs {
		group.Go(func() error { return q.enqueue(ctx, j) })
	}
	return group.Wait()
}

func (q *Queue) enqueue(ctx context.Context, j queue.Job) error {
	payload, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("encode %d: %w", j.ID, err)
	}
	if _, err := q.client.EnqueueContext(ctx, hibiken.NewTask(kind, payload), hibiken.ProcessAt(j.At())); err != nil {
		return fmt.Errorf("enqueue %d: %w", j.ID, err)
	}
	return nil
}

// Work runs a server until ctx ends; what has begun by then has asynq's 8 s to finish.
//
// A killed server's tasks come back when their lease (30 s) has run out and the recoverer (each minute) has seen it;
// neither can be set.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	server := hibiken.NewServer(q.redis, q.config)
	err := server.Start(hibiken.HandlerFunc(func(ctx context.Context, t *hibiken.Task) error {
		var j queue.Job
		if err := json.Unmarshal(t.Payload(), &j); err != nil {
			return fmt.Errorf("decode a task: %w", err)
		}
		return e.Do(ctx, j)
	}))
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// Close ends the client.
func (q *Queue) Close() error { return q.client.Close() }
