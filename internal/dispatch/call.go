package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	// patience is how long a pass waits for the answers to its hints before it goes on without them.
	patience = 500 * time.Millisecond
	// suspectPatience is patience with queues in trouble: others must not wait for them.
	suspectPatience = 10 * time.Millisecond
	// troubleFor is how long after its last refusal a queue counts as in trouble.
	troubleFor = 10 * time.Second
	// samples is how many hints a call has of a lane whose last call was refused.
	samples = 20
)

// partitioner is a Stream that knows which of a queue's hints share a partition.
type partitioner interface {
	Partition(ctx context.Context, queue, owner string) int
}

// lane names hints that Kafka takes or refuses together: all of a queue, or those of one partition of a queue in trouble.
// Each lane has one call at a time.
type lane struct {
	queue     string
	partition int // wholeQueue, or the partition
}

const wholeQueue = -1

// call hands hints to Kafka. It belongs to the shard's goroutine, but for answer, which runs beside it.
type call struct {
	lane    lane
	entries []task.Entry
	before  int64 // health's count of what Kafka took

	left atomic.Bool   // the pass went on without the answer
	done chan struct{} // closed when errs is set
	errs []error       // as Publish answers
}

// begin hands the entries to Kafka, beside the pass.
func (s *shard) begin(ctx context.Context, l lane, entries []task.Entry) *call {
	c := &call{lane: l, entries: entries, before: s.health.taken.Load(), done: make(chan struct{})}
	s.calls = append(s.calls, c)
	for _, e := range entries {
		s.flying[e.Member] = e.Score
	}
	s.answers.Go(func() {
		s.answer(ctx, c)
		if c.left.Load() && s.rouse != nil {
			s.rouse()
		}
	})
	return c
}

// answer publishes the hints of a call and notes what became of them.
func (s *shard) answer(ctx context.Context, c *call) {
	defer close(c.done)
	began := time.Now()
	tracing, end := s.traced(ctx, len(c.entries))
	c.errs = s.send(tracing, c.entries)
	s.d.metrics.publishing.Observe(time.Since(began).Seconds())
	failed := 0
	for _, err := range c.errs {
		if err != nil {
			failed++
		}
	}
	if failed < len(c.entries) {
		s.health.took()
	}
	end(failed)
}

// await waits for the answers, and returns the calls that have none yet. It waits not for long, so
// that hints which Kafka doesn't answer hold nobody up. While Kafka takes nothing at all there is nobody to be held up, and
// the shard must not claim ever more.
func (s *shard) await(ctx context.Context, calls []*call, wait time.Duration) (unanswered []*call) {
	for len(calls) > 0 {
		late := time.NewTimer(wait)
		for len(calls) > 0 && isAnswered(ctx, calls[0], late.C) {
			calls = calls[1:]
		}
		late.Stop()
		if ctx.Err() != nil || !s.health.away.Load() {
			break
		}
	}
	for _, c := range calls {
		c.left.Store(true) // before the next look at done, so that no answer goes unnoticed
	}
	return calls
}

func isAnswered(ctx context.Context, c *call, late <-chan time.Time) bool {
	select {
	case <-c.done:
		return true
	case <-late:
	case <-ctx.Done():
	}
	return false
}

// gather takes in the answers there are. It returns an error when hints were refused because Kafka takes nothing, so that
// the shard backs off; took says that Kafka took something.
func (s *shard) gather(ctx context.Context) (took bool, err error) {
	open := s.calls[:0]
	for _, c := range s.calls {
		select {
		case <-c.done:
			t, refusal := s.settle(ctx, c)
			took = took || t
			if refusal != nil {
				err = refusal
			}
		default:
			open = append(open, c)
		}
	}
	clear(s.calls[len(open):])
	s.calls = open
	return took, err
}

// settle sorts the entries of an answered call into those to acknowledge, those to pass over, and those to try again.
func (s *shard) settle(ctx context.Context, c *call) (took bool, err error) {
	var refused, hopeless []task.Entry
	var cause, why error
	n, now := 0, s.d.cfg.Now()
	for i, e := range c.entries {
		if s.flying[e.Member] == e.Score {
			delete(s.flying, e.Member)
		}
		var err error
		if c.errs != nil {
			err = c.errs[i]
		}
		switch {
		case err == nil:
			n++
			delete(s.held, e.Member)
			s.acked = append(s.acked, e)
			s.d.metrics.lag.Observe(max(now.Sub(e.Score.RunAt()).Seconds(), 0))
		case isPermanent(err):
			hopeless, why = append(hopeless, e), err
		default:
			refused, cause = append(refused, e), err
		}
	}
	s.passOver(ctx, hopeless, why)
	s.d.metrics.published.Add(float64(n))
	if len(refused) == 0 {
		delete(s.refusing, c.lane)
		return n > 0, nil
	}
	well, err := s.refuse(ctx, c, refused, cause)
	return n > 0 || well, err
}

// lanes sorts the claimed entries into what is sent now, by lanes; what can't be sent yet is left where it is.
func (s *shard) lanes(ctx context.Context, entries []task.Entry, now time.Time) (order []lane, send map[lane][]task.Entry) {
	send = map[lane][]task.Entry{}
	busy := map[lane]bool{}
	for _, c := range s.calls {
		busy[c.lane] = true
	}
	var unreadable, excess []task.Entry
	var why error
	for _, e := range entries {
		if e.Err != nil {
			unreadable, why = append(unreadable, e), e.Err
			continue
		}
		if score, flies := s.flying[e.Member]; flies && score == e.Score || !s.isDue(e, now) {
			continue
		}
		l := s.laneOf(ctx, e)
		switch refused := s.refusing[l]; {
		case l.partition != wholeQueue && len(s.flying) >= s.d.cfg.Limit:
			s.slow = true // enough is under way
		case !busy[l] && (!refused || len(send[l]) < samples):
			if send[l] == nil {
				order = append(order, l)
			}
			send[l] = append(send[l], e)
		case !refused:
			s.slow = true
		case s.waiting >= s.room() && s.health.tookLately(takenLately):
			excess = append(excess, e)
		default:
			s.waiting++
		}
	}
	s.passOver(ctx, unreadable, why)
	s.passOver(ctx, excess, errCrowded)
	return order, send
}

// errUnanswered is of a queue whose hints Kafka has neither taken nor refused within patience.
var errUnanswered = errors.New("no answer yet")

// errCrowded is of an entry that was passed over unsent: too many wait for what Kafka refuses already.
var errCrowded = errors.New("too many wait for a queue that Kafka refuses")

// laneOf says with what an entry shares its fate.
func (s *shard) laneOf(ctx context.Context, e task.Entry) lane {
	if at, refused := s.trouble[e.Queue]; refused {
		p, ok := s.d.stream.(partitioner)
		switch {
		case time.Since(at) > troubleFor:
			delete(s.trouble, e.Queue)
			s.d.cfg.Logger.InfoContext(ctx, "queue recovered", "shard", s.number, "queue", e.Queue)
		case ok:
			return lane{e.Queue, p.Partition(ctx, e.Queue, task.RouteKey(e.Owner, e.Score))}
		}
	}
	return lane{e.Queue, wholeQueue}
}

// publish hands the claimed entries to Kafka, each lane's by itself, and takes in the answers that come soon. It returns how
// many it handed over.
func (s *shard) publish(ctx context.Context, entries []task.Entry, now time.Time) (sent []task.Entry, took bool, err error) {
	s.waiting, s.slow = 0, false
	if len(entries) == 0 {
		return nil, false, nil
	}
	order, send := s.lanes(ctx, entries, now)
	var calls, suspect []*call
	for _, l := range order {
		c := s.begin(ctx, l, send[l])
		sent = append(sent, c.entries...)
		if _, refused := s.trouble[l.queue]; refused {
			suspect = append(suspect, c)
		} else {
			calls = append(calls, c)
		}
	}
	for _, c := range s.await(ctx, calls, patience) {
		s.recordTrouble(ctx, c.lane.queue, len(c.entries), errUnanswered)
	}
	s.await(ctx, suspect, suspectPatience)
	took, err = s.gather(ctx)
	if err != nil {
		err = fmt.Errorf("publish shard %d: %w", s.number, err)
	}
	return sent, took, err
}
