// Package duetime is this repository's system as the benchmark uses it: the client library of a game, and a worker of its
// own kind. The event and daemon processes run beside it as they are released; all read the same DUETIME_ environment.
package duetime

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/bench/queue"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// loaders is from how many callers bulk calls are made.
const loaders = 4

// meal is the payload: what any system's message carries.
type meal struct {
	ID  int64 `json:"id"`
	Due int64 `json:"due"`
}

var kind = task.NewKind[meal]("pet.meal")

// Queue is an opened client.
type Queue struct {
	client  *duetime.Client
	metrics registry
}

// registry keeps the one counter that is read again and again where reading it costs nearly nothing.
type registry struct {
	*prometheus.Registry

	counter *prometheus.Registry
}

const settled = "duetime_tasks_settled_total"

func newRegistry() registry { return registry{prometheus.NewRegistry(), prometheus.NewRegistry()} }

// Register is that of prometheus.Registerer.
func (r registry) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 100)
	c.Describe(described)
	close(described)
	for d := range described {
		if strings.Contains(d.String(), strconv.Quote(settled)) {
			_ = r.counter.Register(c) // a second worker of the process shares the first one's
		}
	}
	return r.Registry.Register(c)
}

// MustRegister is that of prometheus.Registerer.
func (r registry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// What the benchmark measures of it beside scheduling and working.
var (
	_ queue.Mover       = (*Queue)(nil)
	_ queue.OwnerMover  = (*Queue)(nil)
	_ queue.Accepter    = (*Queue)(nil)
	_ queue.RowAccepter = (*Queue)(nil)
	_ queue.Reader      = (*Queue)(nil)
	_ queue.Settler     = (*Queue)(nil)
	_ queue.Lagger      = (*Queue)(nil)
)

// Open makes a client of the environment's configuration.
func Open(ctx context.Context, _ queue.Env) (queue.Queue, error) {
	cfg, err := duetime.LoadConfig("")
	if err != nil {
		return nil, err
	}
	q := &Queue{metrics: newRegistry()}
	readers := worker.NewMux()
	worker.HandleBatch(readers, kind, feedPets)
	q.client, err = duetime.Open(cfg, duetime.WithMetrics(q.metrics), duetime.WithLogger(slog.New(slog.DiscardHandler)), duetime.Handlers(readers))
	if err != nil {
		return nil, err
	}
	return q, q.client.Ready(ctx)
}

// Close finishes what is under way.
func (q *Queue) Close() error { return q.client.Close(context.Background()) }

// Schedule makes the jobs in transactions of a thousand.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for len(jobs) > 0 {
		n := min(len(jobs), task.MaxPerCall)
		part := jobs[:n]
		jobs = jobs[n:]
		group.Go(func() error { return q.Accept(ctx, part) })
	}
	return group.Wait()
}

// Accept makes the jobs in one call: rows and index.
func (q *Queue) Accept(ctx context.Context, jobs []queue.Job) error {
	if len(jobs) == 1 {
		_, err := q.client.Schedule(ctx, spec(jobs[0]))
		return err
	}
	specs := make([]task.Spec, len(jobs))
	for i, j := range jobs {
		specs[i] = spec(j)
	}
	return q.client.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.ScheduleMany(ctx, specs)
		return err
	})
}

// AcceptWithRow makes the job beside a row of the service.
func (q *Queue) AcceptWithRow(ctx context.Context, j queue.Job) error {
	return q.client.InTx(ctx, func(tx *schedule.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO bench_tasks (id, due_at) VALUES (?, ?)", j.ID, j.Due); err != nil {
			return err
		}
		_, err := tx.Schedule(ctx, spec(j))
		return err
	})
}

// Move gives one pending task another time.
func (q *Queue) Move(ctx context.Context, j queue.Job) error {
	_, err := q.client.Reschedule(ctx, idOf(j.ID), task.At(j.At()))
	return err
}

// MoveOwner moves all of an owner's tasks in one transaction.
func (q *Queue) MoveOwner(ctx context.Context, owner int64, d time.Duration) (n int, err error) {
	err = q.client.InTx(ctx, func(tx *schedule.Tx) error {
		moved, err := tx.ShiftOwner(ctx, ownerOf(owner), "", d)
		n = len(moved)
		return err
	})
	return n, err
}

// Read reads the job's pet.
func (q *Queue) Read(ctx context.Context, j queue.Job, fresh bool) error {
	return q.client.InTx(ctx, func(tx *schedule.Tx) error {
		if fresh {
			if settled, err := tx.SettleDue(ctx, ownerOf(j.Owner)); err != nil || !settled.Whole() {
				return errors.Join(err, fmt.Errorf("settled %+v", settled))
			}
		}
		var meals int
		return tx.GetContext(ctx, &meals, "SELECT meals FROM bench_pets WHERE id = ?", j.ID)
	})
}

// Work runs the batch handler of the meal: one statement feeds all pets of a batch. Handlers that do nothing are called
// one by one, as everywhere.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	mux := worker.NewMux()
	if e.Real() {
		worker.HandleBatch(mux, kind, func(ctx context.Context, tx *worker.Tx, ts []worker.Task[meal]) error {
			for _, t := range ts {
				mark(e, t)
			}
			return feedPets(ctx, tx, ts)
		})
	} else {
		worker.Handle(mux, kind, func(_ context.Context, _ *worker.Tx, t worker.Task[meal]) error {
			mark(e, t)
			return nil
		})
	}
	return q.client.Work(ctx, mux)
}

func feedPets(ctx context.Context, tx *worker.Tx, ts []worker.Task[meal]) error {
	ids := make([]any, len(ts))
	for i, t := range ts {
		ids[i] = t.Payload.ID
	}
	_, err := tx.ExecContext(ctx, "UPDATE bench_pets SET meals = meals + 1 WHERE id IN ("+strings.Repeat(",?", len(ids))[1:]+")", ids...)
	return err
}

// mark notes that the handler begins. That it ended is counted by the worker, after the commit.
func mark(e *queue.Effects, t worker.Task[meal]) {
	e.Done(queue.Job{ID: t.Payload.ID, Due: t.Payload.Due}, e.Start())
}

// Settled counts effects whose commit was answered.
func (q *Queue) Settled() int64 {
	n := 0.0
	for _, m := range family(q.metrics.counter, settled) {
		for _, l := range m.GetLabel() {
			if l.GetName() == "result" && l.GetValue() == "done" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return int64(n)
}

// The native buckets of the worker's histogram, eight for each doubling: from half a millisecond to half an hour.
const (
	lagSchema          = 3
	firstLag, worstLag = -88, 88
)

// Lags returns the worker's own histogram: from the due time to the commit of the effect.
func (q *Queue) Lags() map[float64]uint64 {
	counts := map[int]uint64{}
	for _, m := range family(q.metrics, "duetime_fire_lag_seconds") {
		h := m.GetHistogram()
		counts[firstLag] += h.GetZeroCount()
		index, n, deltas := 0, int64(0), h.GetPositiveDelta()
		for _, span := range h.GetPositiveSpan() {
			index += int(span.GetOffset())
			for range span.GetLength() {
				n, deltas = n+deltas[0], deltas[1:]
				counts[min(max(index, firstLag), worstLag)] += uint64(n) //nolint:gosec // a count
				index++
			}
		}
	}
	lags, total := map[float64]uint64{}, uint64(0)
	for i := firstLag; i <= worstLag; i++ {
		total += counts[i]
		lags[math.Exp2(float64(i)/(1<<lagSchema))] = total
	}
	return lags
}

func family(of prometheus.Gatherer, name string) []*dto.Metric {
	families, err := of.Gather()
	if err != nil {
		return nil // nothing of the worker fails to be gathered
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()
		}
	}
	return nil
}

// spec names the pet as the task's subject, unless the task's owner is the pet itself.
func spec(j queue.Job) task.Spec {
	options := []task.Option{task.WithID(idOf(j.ID))}
	if j.Owner != j.ID {
		options = append(options, task.Subject(strconv.FormatInt(j.ID, 10)))
	}
	return kind.New(ownerOf(j.Owner), meal{j.ID, j.Due}, task.At(j.At()), options...)
}

func ownerOf(n int64) string { return strconv.FormatInt(n, 10) }

// began is when the ids of this process's jobs begin.
var began = time.Now().UnixMilli()

// idOf makes a UUIDv7 out of a job's number, so that the job can be found again. Like real ones they grow with time, and two million jobs
// have ids of the next minutes.
func idOf(job int64) (id task.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(began+job/4096)<<16|0x7000|uint64(job%4096)) //nolint:gosec // neither is negative
	binary.BigEndian.PutUint64(id[8:], uint64(job)*0x9e3779b97f4a7c15)                     //nolint:gosec // spreads like random bits
	id[8] = id[8]&0x3f | 0x80
	return id
}
