package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/test/chaos/refill"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	readOwners    = 2000
	readWithin    = 5 * time.Millisecond // after an owner's task is due
	readFor       = 5 * time.Minute
	readKills     = 6 // of workers, in each fault
	readKillEvery = 8 * time.Second
)

func freshRow() entry {
	return entry{
		n: 89, fault: fmt.Sprintf("readers within %v of the due times of %d owners, workers killed, Redis and Kafka away meanwhile", readWithin, readOwners),
		alone: true, setup: setup{worker: "./internal/test/chaos/poison", rate: 100, late: time.Second}, run: readsAreFresh,
	}
}

// readsAreFresh reads owners just after their tasks are due, while workers race the readers. No read sees a task that was due at its
// begin and has no effect, and each task has one effect.
func readsAreFresh(t *testing.T, d *drill) {
	t.Helper()
	d.exec(t, refill.Table)
	mux := worker.NewMux()
	refill.Handle(mux)
	client := d.client(t, duetime.Handlers(mux))
	until := time.UnixMilli(d.clock()).Add(readFor)
	var r reads
	through := r.play(t, d, client, until)
	d.also = func(v *verdict) { d.judgeRefills(t, v, until) }
	for _, p := range []part{
		{"nothing", func(*testing.T, *drill) func() { return func() {} }}, {"Redis", killRedis}, {"Kafka", killKafka},
	} {
		d.fault(t, p.name+" dead, workers killed", hintsAgain, func() {
			start := p.kill(t, d)
			for i := range readKills {
				time.Sleep(readKillEvery)
				victim := d.workers[i%len(d.workers)]
				pipelinetest.Must(t, victim.Kill())
				d.restart(t, victim)
			}
			start()
		})
	}
	d.await(t, "the readers to be through", readFor+d.slack, func() bool {
		select {
		case <-through:
			return true
		default:
			return false
		}
	})
	r.judge(t, d)
}

// client is a service's in this process.
func (d *drill) client(t *testing.T, options ...duetime.Option) *duetime.Client {
	t.Helper()
	cfg := duetime.DefaultConfig()
	cfg.Namespace, cfg.MySQL.DSN, cfg.Redis.Addrs, cfg.Kafka.Brokers = d.Namespace, duetime.DSN(d.DSN), []string{d.Redis}, []string{d.Kafka}
	client, err := duetime.Open(cfg, append(options, duetime.WithLogger(slog.New(slog.DiscardHandler)))...)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// reads are fresh reads by what came of them.
type reads struct {
	settled, found, partly, running, unsettled atomic.Int64

	mu   sync.Mutex
	took []time.Duration
}

// play has one reader for each owner, which reads until the owner has no further task. It closes the channel when all are through.
func (r *reads) play(t *testing.T, d *drill, client *duetime.Client, until time.Time) (through <-chan struct{}) {
	ctx, end := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for i := range readOwners {
		readers.Go(func() {
			first := refill.Kind.New(fmt.Sprint("reader-", i), refill.Payload{UntilMs: until.UnixMilli()}, task.In(rand.N(refill.Every)))
			made, err := client.Schedule(ctx, first)
			for next := made.DueAt; err == nil && !next.IsZero(); {
				select {
				case <-ctx.Done():
					return
				case <-time.After(next.Sub(d.crowd.now()) + rand.N(readWithin)):
				}
				next, err = r.read(ctx, t, client, made.Owner, next)
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("read %s: %v", first.Owner(), err)
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); readers.Wait() }()
	t.Cleanup(func() { end(); <-done })
	return done
}

// read reads an owner whose task is due, and returns when the next one is due; the zero time: there is none.
func (r *reads) read(ctx context.Context, t *testing.T, client *duetime.Client, owner string, due time.Time) (next time.Time, err error) {
	var unsettled, began, ms int64
	var settled schedule.Settled
	from := time.Now()
	err = client.InTx(ctx, func(tx *schedule.Tx) (err error) {
		if err = tx.GetContext(ctx, &began, `SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)`); err != nil {
			return err
		}
		if settled, err = tx.SettleDue(ctx, owner); err != nil {
			return err
		}
		if err = tx.GetContext(ctx, &unsettled, `SELECT COUNT(*) FROM duetime_tasks AS t LEFT JOIN chaos_refills AS e ON e.task_id = t.id
			WHERE t.owner = ? AND t.due_at <= ? AND (t.state <> ? OR e.task_id IS NULL)`, owner, began, done); err != nil {
			return err
		}
		return tx.GetContext(ctx, &ms, `SELECT COALESCE(MIN(run_at), 0) FROM duetime_tasks WHERE owner = ? AND state = 0`, owner)
	})
	switch {
	case errors.Is(err, task.ErrRunning):
		r.running.Add(1)
		return due, nil
	case err != nil:
		return due, err
	}
	r.count(time.Since(from), settled)
	if unsettled > 0 && settled.Whole() && r.unsettled.Add(1) <= 10 {
		t.Errorf("unsettled: %s was read at %d with %d tasks that were due, and had no effect", owner, began, unsettled)
	}
	if ms == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}

func (r *reads) count(took time.Duration, settled schedule.Settled) {
	r.mu.Lock()
	r.took = append(r.took, took)
	r.mu.Unlock()
	switch {
	case !settled.Whole():
		r.partly.Add(1)
	case settled.Done > 0:
		r.settled.Add(1)
	default:
		r.found.Add(1)
	}
}

// judge wants enough reads of both sorts, and none that saw what was not settled.
func (r *reads) judge(t *testing.T, d *drill) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.took)
	d.note(t, "%d reads of %d owners: %d settled a task, %d found a worker's effect, %d were answered \"running\", %d left something to workers; "+
		"%d saw a due task without its effect; p50 %v, p99 %v", len(r.took), readOwners, r.settled.Load(), r.found.Load(), r.running.Load(),
		r.partly.Load(), r.unsettled.Load(), rank(r.took, 50).Round(time.Millisecond/10), rank(r.took, 99).Round(time.Millisecond/10))
	if n := r.unsettled.Load(); n != 0 {
		t.Errorf("%d reads saw a due task without its effect, want none", n)
	}
	if r.settled.Load() == 0 || r.found.Load() == 0 {
		t.Error("readers and workers did not race")
	}
	if n := r.partly.Load(); n > int64(len(r.took)/100) {
		t.Errorf("%d of %d reads left something to workers, want hardly any", n, len(r.took))
	}
}

// judgeRefills holds the tasks of the readers' owners against their effects.
func (d *drill) judgeRefills(t *testing.T, v *verdict, until time.Time) {
	t.Helper()
	const effects = `FROM chaos_refills AS e LEFT JOIN duetime_tasks AS t ON t.id = e.task_id `
	for _, c := range []struct {
		cases       *[]string
		what, query string
		args        []any
	}{
		{&v.duplicate, "took effect again", `SELECT HEX(task_id) FROM chaos_refills GROUP BY task_id HAVING COUNT(*) > 1`, nil},
		{&v.early, "took effect before its time", `SELECT HEX(e.task_id) ` + effects + `WHERE e.at < t.due_at`, nil},
		{&v.phantom, "took effect, and is not done", `SELECT HEX(e.task_id) ` + effects + `WHERE t.id IS NULL OR t.state <> ?`, []any{done}},
		{
			&v.lost, "has no effect", `SELECT HEX(id) FROM duetime_tasks LEFT JOIN chaos_refills ON task_id = id
				WHERE kind = ? AND task_id IS NULL`, []any{refill.Kind.Name()},
		},
		{
			&v.lost, "is the first of too few", `SELECT HEX(MIN(id)) FROM duetime_tasks WHERE kind = ?
				GROUP BY owner HAVING COUNT(*) <> (? - MIN(due_at)) DIV ? + 1`,
			[]any{refill.Kind.Name(), until.UnixMilli(), refill.Every.Milliseconds()},
		},
	} {
		err := each(t.Context(), d.db, func(scan scan) error {
			var id string
			err := scan(&id)
			*c.cases = append(*c.cases, fmt.Sprintf("task %s: %s", id, c.what))
			return err
		}, c.query, c.args...)
		pipelinetest.Must(t, err)
	}
	if n := d.inState(t, refill.Kind.Name(), done); n < readOwners*int(readFor/refill.Every)/2 {
		t.Errorf("only %d refills", n)
	}
	v.tasks += d.inState(t, refill.Kind.Name(), done)
}
