package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

const (
	answerTimeout         = 500 * time.Millisecond // a pass waits this long for the answers to its hints
	troubledAnswerTimeout = 10 * time.Millisecond  // of queues in trouble: other queues must not wait for them
	troubleTime           = 10 * time.Second       // after its last refusal a queue counts as in trouble
	hintsPerRetry         = 20                     // in a call to a destination that refused the last call
)

// partitioner is a Stream that knows which of a queue's hints share a partition.
type partitioner interface {
	Partition(ctx context.Context, queue, owner string) int
}

// destination is where Kafka takes or refuses hints together: a queue, or one partition of a queue in trouble. Each
// destination has one call at a time.
type destination struct {
	queue     string
	partition int // or wholeQueue
}

const wholeQueue = -1

// call sends hints to Kafka. Its fields belong to the shard's goroutine, except that publishCall sets errs before it
// closes done.
type call struct {
	to      destination
	entries []protocol.Entry
	before  int64 // health.taken when the call began

	unawaited atomic.Bool   // the pass went on without the answer
	done      chan struct{} // closed when errs is set
	errs      []error       // as Publish answers
}

// startCall sends the entries' hints to Kafka on a goroutine of its own.
func (s *shard) startCall(ctx context.Context, to destination, entries []protocol.Entry) *call {
	c := &call{to: to, entries: entries, before: s.health.taken.Load(), done: make(chan struct{})}
	s.calls = append(s.calls, c)
	for _, e := range entries {
		s.inFlight[e.Member] = e.Score
	}
	s.answers.Go(func() {
		s.publishCall(ctx, c)
		if c.unawaited.Load() && s.wakeUp != nil {
			s.wakeUp()
		}
	})
	return c
}

// publishCall publishes the hints of a call and records the answers.
func (s *shard) publishCall(ctx context.Context, c *call) {
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
		s.health.recordTaken()
	}
	end(failed)
}

// await waits for the calls' answers, and returns the calls that have none yet. It waits only briefly, so that other
// hints don't wait for those that Kafka doesn't answer. While Kafka takes nothing at all, await waits on: no other hint
// could go out, and the shard must not claim more and more.
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
		select {
		case <-c.done: // the wait was for a call before it
		default:
			c.unawaited.Store(true) // before the next look at done, or an answer between the two would wake nobody
			unanswered = append(unanswered, c)
		}
	}
	return unanswered
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

// collectAnswers processes the calls that were answered. It returns an error if hints were refused because Kafka takes
// nothing, so that the shard backs off. took says that Kafka took something.
func (s *shard) collectAnswers(ctx context.Context) (took bool, err error) {
	open := s.calls[:0]
	for _, c := range s.calls {
		select {
		case <-c.done:
			t, refused := s.processAnswer(ctx, c)
			took = took || t
			err = cmp.Or(refused, err)
		default:
			open = append(open, c)
		}
	}
	clear(s.calls[len(open):])
	s.calls = open
	return took, err
}

// processAnswer sorts the entries of an answered call into those to acknowledge, to pass over, and to retry.
func (s *shard) processAnswer(ctx context.Context, c *call) (took bool, err error) {
	var refused, hopeless []protocol.Entry
	var cause, why error
	n, now := 0, s.d.cfg.Now()
	for i, e := range c.entries {
		if s.inFlight[e.Member] == e.Score {
			delete(s.inFlight, e.Member)
		}
		var err error
		if c.errs != nil {
			err = c.errs[i]
		}
		switch {
		case err == nil:
			n++
			delete(s.refusals, e.Member)
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
		delete(s.refusing, c.to)
		return n > 0, nil
	}
	well, err := s.refuse(ctx, c, refused, cause)
	return n > 0 || well, err
}

// groupByDestination groups the claimed entries that can be sent now. It leaves the others in the due set, or passes
// them over.
func (s *shard) groupByDestination(
	ctx context.Context, entries []protocol.Entry, now time.Time,
) (order []destination, send map[destination][]protocol.Entry) {
	send = map[destination][]protocol.Entry{}
	busy := map[destination]bool{}
	for _, c := range s.calls {
		busy[c.to] = true
	}
	var unreadable, excess []protocol.Entry
	var why error
	for _, e := range entries {
		if e.Err != nil {
			unreadable, why = append(unreadable, e), e.Err
			continue
		}
		if score, sent := s.inFlight[e.Member]; sent && score == e.Score || !s.isDue(e, now) {
			continue
		}
		to := s.destinationOf(ctx, e)
		switch refused := s.refusing[to]; {
		case to.partition != wholeQueue && len(s.inFlight) >= s.d.cfg.Limit:
			s.delayed = true // enough entries are in flight
		case !busy[to] && (!refused || len(send[to]) < hintsPerRetry):
			if send[to] == nil {
				order = append(order, to)
			}
			send[to] = append(send[to], e)
		case !refused:
			s.delayed = true
		case s.waiting >= s.maxRefused() && s.health.tookLately(takenLately):
			excess = append(excess, e)
		default:
			s.waiting++
		}
	}
	s.passOver(ctx, unreadable, why)
	s.passOver(ctx, excess, errCrowded)
	return order, send
}

// errUnanswered is the trouble of a queue whose hints Kafka has neither taken nor refused within answerTimeout.
var errUnanswered = errors.New("no answer yet")

// errCrowded is why an entry is passed over unsent: too many entries wait for a destination that refuses hints.
var errCrowded = errors.New("too many wait for a queue that Kafka refuses")

// destinationOf returns where the entry's hint goes.
func (s *shard) destinationOf(ctx context.Context, e protocol.Entry) destination {
	if at, refused := s.trouble[e.Queue]; refused {
		p, ok := s.d.stream.(partitioner)
		switch {
		case time.Since(at) > troubleTime:
			delete(s.trouble, e.Queue)
			s.d.cfg.Logger.InfoContext(ctx, "queue recovered", "shard", s.number, "queue", e.Queue)
		case ok:
			return destination{e.Queue, p.Partition(ctx, e.Queue, protocol.RouteKey(e.Route(), e.Score))}
		}
	}
	return destination{e.Queue, wholeQueue}
}

// publish sends the claimed entries' hints to Kafka, with one call for each destination, and processes the answers that
// come soon. It returns the entries that it sent.
func (s *shard) publish(ctx context.Context, entries []protocol.Entry, now time.Time) (sent []protocol.Entry, took bool, err error) {
	s.waiting, s.delayed = 0, false
	if len(entries) == 0 {
		return nil, false, nil
	}
	order, send := s.groupByDestination(ctx, entries, now)
	var calls, troubled []*call
	for _, to := range order {
		c := s.startCall(ctx, to, send[to])
		sent = append(sent, c.entries...)
		if _, refused := s.trouble[to.queue]; refused {
			troubled = append(troubled, c)
		} else {
			calls = append(calls, c)
		}
	}
	for _, c := range s.await(ctx, calls, answerTimeout) {
		s.recordTrouble(ctx, c.to.queue, len(c.entries), errUnanswered)
	}
	s.await(ctx, troubled, troubledAnswerTimeout)
	took, err = s.collectAnswers(ctx)
	if err != nil {
		err = fmt.Errorf("publish shard %d: %w", s.number, err)
	}
	return sent, took, err
}
