package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/trust"
)

const (
	joinRetryDelay = 300 * time.Millisecond
	leaveTimeout   = time.Second // a rebalance may hold the connection
	// rebalanceTimeout is how long the group waits for a member to join again, and a member for fn to return.
	rebalanceTimeout = 3 * time.Second

	minTopicDelay = 100 * time.Millisecond // between tries to ensure the topics before the group is joined
	maxTopicDelay = 2500 * time.Millisecond
)

// After fn returned an error, its session ends after a delay that grows from MinFailureDelay to MaxFailureDelay.
const (
	MinFailureDelay = 250 * time.Millisecond
	MaxFailureDelay = 5 * time.Second
)

// member is this process's membership in one group.
type member struct {
	c       *Client
	topic   Topic
	groupID string
	fn      func(context.Context, *Session) error

	group         *kafka.ConsumerGroup
	running       *runningSession            // nil before the first generation
	failureDelays backoff.ExponentialBackOff // after errors of fn

	assigned atomic.Pointer[int] // partitions that this member has just assigned as the group's leader; nil otherwise
}

// runningSession is a session whose fn may be running. It outlives its generation until the next one begins: a member
// that can't reach the group's coordinator goes on with the partitions that it had. Another member may already have them,
// and both then get the same records.
type runningSession struct {
	*Session
	end      func()        // closes Lost and ends fn's ctx
	returned chan struct{} // closed when fn has returned
}

// Consume reads a topic as a member of a group, until ctx ends; then it leaves the group and returns nil. It calls fn
// with each session, one at a time, and joins again when fn has returned. While the broker is away it keeps trying. It
// returns a permanent error when the broker refuses the configuration. The topic is created if it is missing.
//
// fn's ctx ends with the session or with Consume's ctx; fn must then return soon. If fn goes on after a lost session, its
// partitions wait for three seconds; then this member leaves the group until fn has returned. An error of fn is logged,
// and the session ends after a growing delay.
func (c *Client) Consume(ctx context.Context, topic Topic, group string, fn func(context.Context, *Session) error) error {
	if err := c.awaitEnsured(ctx, topic); err != nil || ctx.Err() != nil {
		return err
	}
	m := member{
		c: c, topic: topic, groupID: group, fn: fn,
		failureDelays: backoff.ExponentialBackOff{InitialInterval: MinFailureDelay, MaxInterval: MaxFailureDelay, Multiplier: 2},
	}
	if err := m.join(); err != nil {
		return fmt.Errorf("join %s: %w", group, err)
	}
	defer func() { m.leave() }()
	defer m.endSession()
	for ctx.Err() == nil {
		gen, err := m.group.Next(ctx)
		switch {
		case err == nil && m.sessionEnds():
			m.serve(ctx, gen)
		case err == nil:
			if err := m.leaveUntilReturned(); err != nil {
				return fmt.Errorf("join %s: %w", group, err)
			}
		case ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed):
		case trust.Refused(err): // the broker was trusted when Consume began, so the server in its place may be temporary
			m.warn(err)
		case Refusal(err) != nil:
			return fmt.Errorf("join %s: %w", group, Refusal(err))
		default:
			m.warn(err)
		}
	}
	return nil
}

// awaitEnsured creates the topics before the group is joined: a member of a group whose topic is missing is assigned
// nothing.
func (c *Client) awaitEnsured(ctx context.Context, topic Topic) error {
	delays := backoff.ExponentialBackOff{InitialInterval: minTopicDelay, MaxInterval: maxTopicDelay, Multiplier: 2}
	for ctx.Err() == nil {
		err := c.ensureThrottled(ctx, topic)
		if err == nil {
			return nil
		}
		if _, missing := c.Partitions(ctx, topic.Name); missing == nil {
			return nil // the error concerns another topic
		}
		if refused := Refusal(err); refused != nil {
			return refused
		}
		if IsPermanent(err) {
			return err
		}
		if ctx.Err() == nil {
			c.topics.Warn(c.cfg.Logger, time.Now(), "waiting for the topics", "queue", topic.Name, "err", err)
		}
		loop.Sleep(ctx, delays.NextBackOff())
	}
	return nil
}

// join makes the group's client, which then joins.
func (m *member) join() (err error) {
	cfg := m.c.cfg
	var balancer kafka.GroupBalancer = countingBalancer{kafka.RangeGroupBalancer{}, &m.assigned}
	if m.c.wrapBalancer != nil {
		balancer = m.c.wrapBalancer(balancer)
	}
	m.group, err = kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: m.groupID, Topics: []string{m.topic.Name}, Brokers: cfg.Addrs,
		Dialer: &kafka.Dialer{
			ClientID: clientID, Timeout: callTimeout, DualStack: true,
			DialFunc: (&net.Dialer{Timeout: callTimeout}).DialContext,
			TLS:      cfg.TLS, SASLMechanism: m.c.mechanism,
		},
		GroupBalancers:    []kafka.GroupBalancer{balancer},
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    cfg.SessionTimeout,
		RebalanceTimeout:  min(cfg.SessionTimeout, rebalanceTimeout),
		HeartbeatInterval: cfg.Heartbeat,
		JoinGroupBackoff:  joinRetryDelay,
		Timeout:           callTimeout,
		ErrorLogger: kafka.LoggerFunc(func(format string, args ...any) {
			cfg.Logger.Debug("kafka client", "queue", m.topic.Name, "err", fmt.Sprintf(format, args...))
		}),
	})
	return err
}

// leave leaves the group so that its partitions move at once. If the broker doesn't answer in time, they move after the
// session timeout.
func (m *member) leave() {
	left := make(chan struct{})
	go func() { defer close(left); _ = m.group.Close() }()
	select {
	case <-left:
	case <-time.After(leaveTimeout):
		m.c.cfg.Logger.Warn("leaving the group takes too long", "queue", m.topic.Name)
	}
}

// leaveUntilReturned leaves the group until fn has returned: a member that doesn't work must not keep its partitions from
// members that do.
func (m *member) leaveUntilReturned() error {
	m.leave()
	m.endSession()
	return m.join()
}

// warn logs that joining failed: while the broker is away joining fails three times a second.
func (m *member) warn(err error) {
	m.c.joins.Warn(m.c.cfg.Logger, time.Now(), "joining the group is being tried again", "queue", m.topic.Name, "err", err)
}

// serve runs fn for one generation, and returns when the generation has ended. Heartbeats go on until fn has returned, so
// that fn can drain when ctx ends.
func (m *member) serve(ctx context.Context, gen *kafka.Generation) {
	if assigned := m.assigned.Swap(nil); assigned != nil {
		gen.Start(func(ctx context.Context) { m.watchPartitions(ctx, *assigned) })
	}
	s := m.startSession(ctx, gen)
	m.running = s
	ended := make(chan struct{})
	gen.Start(func(genCtx context.Context) {
		defer close(ended)
		select {
		case <-genCtx.Done():
			s.generationEnded.Store(true)
			return
		case <-s.returned:
		}
		if ctx.Err() == nil {
			return
		}
		// Returning ends the generation, and the group would join for the next one unless it is closing.
		go func() { _ = m.group.Close() }()
		<-genCtx.Done()
	})
	<-ended
}

func (m *member) startSession(ctx context.Context, gen *kafka.Generation) *runningSession {
	ctx, cancel := context.WithCancel(ctx)
	lost := make(chan struct{})
	s := &runningSession{
		Session:  newSession(m.c, m.topic.Name, gen, lost),
		end:      sync.OnceFunc(func() { close(lost); cancel() }),
		returned: make(chan struct{}),
	}
	go func() {
		defer close(s.returned)
		m.work(ctx, s.Session, gen)
	}()
	return s
}

func (m *member) work(ctx context.Context, s *Session, gen *kafka.Generation) {
	log := m.c.cfg.Logger.With("queue", m.topic.Name, "epoch", gen.ID)
	log.Info("session began", "n", len(s.partitions))
	if len(s.partitions) == 0 {
		// The broker's data may have been wiped, and the topic with it.
		if err := m.c.ensureThrottled(ctx, m.topic); err != nil && ctx.Err() == nil {
			m.c.topics.Warn(log, time.Now(), "waiting for the topics", "err", err)
		}
	}
	err := s.run(ctx, gen.Assignments[m.topic.Name], m.fn)
	if err == nil || ctx.Err() != nil {
		m.failureDelays.Reset()
		return
	}
	log.Warn("session ended with an error", "err", err)
	loop.Sleep(ctx, m.failureDelays.NextBackOff())
}

// sessionEnds ends the running session, and reports whether its fn has returned in time.
func (m *member) sessionEnds() bool {
	if m.running == nil {
		return true
	}
	m.running.end()
	select {
	case <-m.running.returned:
		m.running = nil
		return true
	case <-time.After(rebalanceTimeout):
		return false
	}
}

// endSession ends the running session and waits for its fn.
func (m *member) endSession() {
	if m.running != nil {
		m.running.end()
		<-m.running.returned
		m.running = nil
	}
}
