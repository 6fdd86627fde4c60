package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/pkg/task"
)

const fetchRetryInterval = 200 * time.Millisecond // after a fetch that failed

// queue is the work of one queue: its hints, and where they came from.
type queue struct {
	*Worker
	name string
	hold *hold.Hold

	mu     sync.Mutex
	gen    *generation   // the present one; nil between two
	joined chan struct{} // closed when the group was joined first
}

// generation is one membership of the queue's group: its session, the offsets of what that delivers, and what tells suspects.
type generation struct {
	session Session
	offsets *offsets.Generation
	since   time.Time    // of the database's clock: what was due before may have been running when the last owner died
	clean   map[int]bool // partitions that their last owner left with nothing running; never changed
}

func newQueue(w *Worker, name string) *queue {
	return &queue{Worker: w, name: name, hold: hold.New(w.clock), joined: make(chan struct{})}
}

// consume is one generation: it takes messages in until the partitions are lost or the worker stops, and commits
// offsets until the end.
func (q *queue) consume(ctx context.Context, s Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := q.begin(s)
	defer q.end(g)
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
			q.Logger.WarnContext(ctx, "offsets not committed, trying on", slog.String("queue", q.name), slog.Any("err", err))
		})
	})
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(q.intake, stop)()
	q.fetch(fetching, s, g)
	<-ctx.Done() // the hints in hand may still be settled, and their offsets be committed
	return nil
}

func (q *queue) begin(s Session) *generation {
	g := &generation{session: s, offsets: offsets.NewGeneration(s), since: q.clock.Now(), clean: q.takeOver(s.Partitions())}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gen = g
	select {
	case <-q.joined:
	default:
		close(q.joined)
	}
	q.Logger.Info("partitions assigned", slog.String("queue", q.name), slog.Int("n", len(s.Partitions())))
	return g
}

func (q *queue) end(g *generation) {
	q.mu.Lock()
	q.gen = nil
	q.mu.Unlock()
	g.offsets.End()
	gone, inHand := q.hold.Revoke(g.offsets)
	q.refund(gone)
	q.handOver(g.session.Partitions(), inHand)
}

// fetch takes in what is there until ctx ends. It pauses while too much is uncommitted, and while MySQL is away.
func (q *queue) fetch(ctx context.Context, s Session, g *generation) {
	for {
		if g.offsets.WaitRoom(ctx, q.MaxUncommitted) != nil || q.gate.wait(ctx) != nil {
			return
		}
		ds, err := s.Fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			q.Logger.WarnContext(ctx, "fetch failed", slog.String("queue", q.name), slog.Any("err", err))
			loop.Sleep(ctx, fetchRetryInterval)
			continue
		}
		q.accept(g, ds)
	}
}

// accept puts each hint on hold. What was due before this worker got the partition may have been running when the last
// one ended, and may have been what ended it: such hints are suspects, as many as the last one can have had in hand. Where
// that one left in good order none is.
func (q *queue) accept(g *generation, ds []task.Delivery) {
	now := q.clock.Now()
	var letters []task.DeadLetter
	for _, d := range ds {
		m, before := g.offsets.Deliver(d.Partition, d.Offset)
		if d.Err != nil {
			letters = append(letters, unreadable(q.name, d))
			m.Settle()
			continue
		}
		h := hold.NewHint(d.Hint, now, q.Patience, m)
		h.Traceparent = d.Traceparent
		h.Suspect = !g.clean[d.Partition] && before < q.MaxUncommitted && !d.Hint.Moment().After(g.since)
		q.hold.Add(h)
	}
	q.after.bury(letters)
}
