package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/internal/precise"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

const (
	fetchRetryInterval = 200 * time.Millisecond // after a fetch that failed
	fullInterval       = 10 * time.Millisecond  // between two looks whether the worker may hold more hints
)

// queue is the work of one queue: its hints, and where they came from.
type queue struct {
	worker    *Worker
	name      string
	log       *slog.Logger
	hold      *hold.Hold
	handovers Handovers
	holder    string // names this run of the worker where partitions are handed over
	looker    *looker
	paused    bool // when pauses were last read

	mu     sync.Mutex
	gen    *generation      // the present one; nil between two
	last   protocol.Session // of the last generation; nil before the first
	joined chan struct{}    // closed when the group was joined first
}

// generation is one membership of the queue's group: its session, the offsets of what that delivers, and what tells suspects.
type generation struct {
	session  protocol.Session
	offsets  *offsets.Generation
	since    time.Time    // of the database's clock: what was due before may have been running when the last owner died
	clean    map[int]bool // partitions that their last owner left with nothing running; never changed
	recorded bool         // at the beginning, that the partitions are this worker's
}

func newQueue(w *Worker, name string, handovers Handovers, holder string, kinds []task.KindInfo) *queue {
	q := &queue{
		worker: w, name: name, log: w.cfg.Logger.With(slog.String("queue", name)), hold: hold.New(w.clock, kinds...),
		handovers: handovers, holder: holder, joined: make(chan struct{}),
	}
	q.hold.SetLimit(w.cfg.Limits[name])
	q.hold.ShareSeat(w.suspect)
	q.looker = newLooker(q)
	return q
}

// run is one runner: take, settle, release.
func (q *queue) run(ctx context.Context, l hold.Lane) {
	sleeper := precise.New()
	defer sleeper.Close()
	w := q.worker
	for w.gate.Wait(w.intake) == nil {
		taken := q.hold.Take(w.intake, l, w.cfg.batch(l))
		if len(taken) == 0 {
			return
		}
		q.settle(ctx, taken, sleeper)
	}
}

// settle settles what a runner has taken, and releases it.
func (q *queue) settle(ctx context.Context, taken []*hold.Hint, sleeper *precise.Sleeper) {
	w := q.worker
	defer func() { w.settler.Refund(q.hold.Release(taken)) }()
	w.settler.Settle(ctx, taken, sleeper)
}

// consume is one generation: it takes messages in until the partitions are lost or the worker stops, and commits
// offsets until the end.
func (q *queue) consume(ctx context.Context, s protocol.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := q.beginGeneration(s)
	defer q.endGeneration(g)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() {
		select {
		case <-s.Lost():
			cancel()
		case <-ctx.Done():
		}
	})
	tasks.Go(func() {
		g.offsets.CommitLoop(ctx, func(err error) {
			q.log.WarnContext(ctx, "offsets not committed, trying on", slog.Any("err", err))
		})
	})
	if !g.recorded {
		tasks.Go(func() { q.takeOverLate(ctx, s.Partitions()) })
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(q.worker.intake, stop)()
	q.fetch(fetching, g)
	<-ctx.Done() // the hints in hand may still be settled, and their offsets be committed
	return nil
}

func (q *queue) beginGeneration(s protocol.Session) *generation {
	g := &generation{session: s, offsets: offsets.NewGeneration(s), since: q.worker.clock.Now()}
	g.clean, g.recorded = q.takeOver(s.Partitions())
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gen, q.last = g, s
	select {
	case <-q.joined:
	default:
		close(q.joined)
	}
	q.log.Info("partitions assigned", slog.Int("n", len(s.Partitions())))
	return g
}

func (q *queue) endGeneration(g *generation) {
	q.mu.Lock()
	q.gen = nil
	q.mu.Unlock()
	g.offsets.End()
	forgotten, busy := q.hold.Revoke(g.offsets)
	q.worker.settler.Refund(forgotten)
	q.handOver(g.session.Partitions(), busy)
	loop.Rouse(q.looker.wake)
}

// commitLast commits the offsets of what was settled until the worker stopped.
func (q *queue) commitLast() {
	q.mu.Lock()
	g := q.gen
	q.mu.Unlock()
	if g == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := g.offsets.Commit(ctx); err != nil {
		q.log.Warn("last offsets not committed", slog.Any("err", err))
	}
}

// fetch takes in what is there until ctx ends. It pauses while too much is uncommitted, and while MySQL is away.
func (q *queue) fetch(ctx context.Context, g *generation) {
	for {
		if g.offsets.WaitRoom(ctx, q.worker.cfg.MaxUncommitted) != nil || q.worker.gate.Wait(ctx) != nil {
			return
		}
		if !q.worker.mayHoldMore(q) {
			loop.Sleep(ctx, fullInterval)
			continue
		}
		ds, err := g.session.Fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			q.log.WarnContext(ctx, "fetch failed", slog.Any("err", err))
			loop.Sleep(ctx, fetchRetryInterval)
			continue
		}
		q.accept(g, ds)
	}
}

// mayHoldMore reports whether the queue may take more hints in. It may hold its share whatever others hold: the hints of a paused or
// limited queue stay for long.
func (w *Worker) mayHoldMore(q *queue) bool {
	held := 0
	for _, each := range w.queues {
		held += each.hold.Len()
	}
	return held < w.cfg.MaxUncommitted || q.hold.Len() < w.cfg.MaxUncommitted/len(w.queues)
}

// accept puts each hint on hold. What was due before this worker got the partition may have been running when the last
// one ended, and may have been what ended it: such hints are suspects, as many as the last one can have had in hand. Where
// that one left in good order none is.
func (q *queue) accept(g *generation, ds []protocol.Delivery) {
	now, cfg := q.worker.clock.Now(), q.worker.cfg
	var letters []protocol.DeadLetter
	for _, d := range ds {
		m, before := g.offsets.Deliver(d.Partition, d.Offset)
		if d.Err != nil {
			letters = append(letters, unreadable(q.name, d))
			m.Settle()
			continue
		}
		h := hold.NewHint(d.Hint, now, cfg.Patience, m)
		h.Traceparent = d.Traceparent
		h.Suspect = !g.clean[d.Partition] && before < cfg.MaxUncommitted && !d.Hint.Moment().After(g.since)
		q.hold.Add(h)
	}
	q.worker.letters.Bury(letters)
}
