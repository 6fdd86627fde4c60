package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/trust"
	"github.com/duetime/duetime/pkg/task"
)

const (
	joinBackoff  = 300 * time.Millisecond
	leaveBound   = time.Second     // how long leaving the group may take; a rebalance may be holding the connection
	watchEvery   = 2 * time.Second // looks for partitions that came or went
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// A task whose put failed may be due at once: what is waited for must not be slept over when it comes back.
	compensateBackoff = 500 * time.Millisecond
	// For so long the group waits for a member to join again, and a member for its last session to end.
	rebalanceBound = 3 * time.Second
	brokenBackoff  = 250 * time.Millisecond
	warnEvery      = 10 * time.Second
)

// Consume reads a queue's topic as a member of the queue's group: it calls fn with each session, one at a time, and
// joins again when fn has returned, until ctx ends; then it leaves the group and returns nil. While the broker is away
// it keeps trying. It returns a permanent error when the broker refuses the configuration.
//
// fn's ctx ends with the session or with Consume's ctx; fn must then return soon. While it has not, after a lost
// session, its partitions wait for three seconds; then this member leaves the group until it has. An error of fn is
// logged, and the session ends after a growing pause.
func (k *Kafka) Consume(ctx context.Context, queue string, fn func(ctx context.Context, s Session) error) error {
	if err := checkName("queue", queue); err != nil {
		return permanent(err)
	}
	sub := k.names.queue(queue)
	return k.consume(ctx, sub, k.queueTopic(sub.topic), func(ctx context.Context, s rawSession) error { return fn(ctx, s) })
}

// Compensations calls fn with the compensations that are there, and commits them once fn has returned nil; until then
// the same ones are given again after a growing pause. What can't be decoded is dropped and counted. It returns nil when
// ctx ends, and a permanent error when the broker refuses the configuration.
func (k *Kafka) Compensations(ctx context.Context, fn func(context.Context, []task.Compensation) error) error {
	sub := k.names.compensate()
	c := compensator{fn: fn, metrics: k.metrics, logger: k.cfg.Logger}
	return k.consume(ctx, sub, k.topic(sub.topic, min(k.cfg.Partitions, sidePartitions), keepHints), c.run)
}

func (k *Kafka) consume(ctx context.Context, sub subscription, topic kafka.TopicConfig,
	fn func(context.Context, rawSession) error,
) error {
	if err := k.awaitEnsured(ctx, topic); err != nil || ctx.Err() != nil {
		return err
	}
	m := member{k: k, sub: sub, topic: topic, fn: fn}
	if err := m.enter(); err != nil {
		return fmt.Errorf("join %s: %w", sub.group, err)
	}
	defer func() { k.leave(m.group, sub) }()
	defer m.await()
	for ctx.Err() == nil {
		gen, err := m.group.Next(ctx)
		switch {
		case err == nil && m.relieved():
			m.serve(ctx, gen)
		case err == nil:
			err = m.standAside()
			if err != nil {
				return fmt.Errorf("join %s: %w", sub.group, err)
			}
		case ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed):
		case trust.Refused(err): // when it began the broker was believed: what stands in its place may go again
			m.warn(err)
		case Refusal(err) != nil:
			return fmt.Errorf("join %s: %w", sub.group, Refusal(err))
		default:
			m.warn(err)
		}
	}
	return nil
}

// awaitEnsured creates the topics before the group is joined: a member of a group whose topic is missing is assigned
// nothing.
func (k *Kafka) awaitEnsured(ctx context.Context, topic kafka.TopicConfig) error {
	pause := firstBackoff
	for ctx.Err() == nil {
		err := k.ensureSoon(ctx, topic)
		if err == nil {
			return nil
		}
		if _, seen := k.partitions(ctx, topic.Topic); seen == nil {
			return nil // another queue's topic is the trouble
		}
		if p := Refusal(err); p != nil || isPermanent(err) {
			return cmp.Or(p, err)
		}
		if ctx.Err() == nil {
			k.cfg.Logger.Warn("waiting for the topics", "queue", topic.Topic, "err", err)
		}
		_ = sleep(ctx, pause)
		pause = min(2*pause, lastBackoff/2)
	}
	return nil
}

// enter makes the group's client, which joins by itself.
func (m *member) enter() (err error) {
	var balancer kafka.GroupBalancer = counting{kafka.RangeGroupBalancer{}, &m.assigned}
	if m.k.blindfold != nil {
		balancer = m.k.blindfold(balancer)
	}
	m.group, err = kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: m.sub.group, Topics: []string{m.sub.topic}, Brokers: m.k.cfg.Brokers,
		Dialer: &kafka.Dialer{
			ClientID: "duetime", Timeout: callTimeout, DualStack: true,
			DialFunc: (&net.Dialer{Timeout: callTimeout}).DialContext,
			TLS:      m.k.cfg.TLS, SASLMechanism: m.k.sasl,
		},
		GroupBalancers:    []kafka.GroupBalancer{balancer},
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    m.k.cfg.SessionTimeout,
		RebalanceTimeout:  min(m.k.cfg.SessionTimeout, rebalanceBound),
		HeartbeatInterval: m.k.cfg.Heartbeat,
		JoinGroupBackoff:  joinBackoff,
		Timeout:           callTimeout,
		ErrorLogger: kafka.LoggerFunc(func(format string, args ...any) {
			m.k.cfg.Logger.Debug("kafka client", "queue", m.sub.topic, "err", fmt.Sprintf(format, args...))
		}),
	})
	return err
}

// counting remembers how many partitions its balancer assigned. The group's leader alone does so, for all members.
type counting struct {
	kafka.GroupBalancer
	assigned *atomic.Pointer[int]
}

// AssignGroups is what the library calls while the group is joined.
func (c counting) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	c.assigned.Store(new(len(partitions)))
	return c.GroupBalancer.AssignGroups(members, partitions)
}

// watch ends the generation once there are more or fewer partitions than this member assigned as the group's leader; the
// leader that joins again makes all others join again. The library's own watch compares with what it finds when it
// begins: a topic that came back between the assignment and that moment would be nobody's for ever.
func (m *member) watch(ctx context.Context, assigned int) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n, err := m.k.partitions(ctx, m.sub.topic)
		if n != assigned && (err == nil || errors.Is(err, kafka.UnknownTopicOrPartition)) {
			m.k.cfg.Logger.Info("partitions changed", "queue", m.sub.topic, "n", n)
			return
		}
	}
}

// leave leaves the group so that its partitions move at once. When the broker doesn't answer in time they move after the
// session timeout.
func (k *Kafka) leave(group *kafka.ConsumerGroup, sub subscription) {
	done := make(chan struct{})
	go func() { defer close(done); _ = group.Close() }()
	select {
	case <-done:
	case <-time.After(leaveBound):
		k.cfg.Logger.Warn("leaving the group takes too long", "queue", sub.topic)
	}
}

// member is this process's membership in one group.
type member struct {
	k       *Kafka
	sub     subscription
	topic   kafka.TopicConfig
	group   *kafka.ConsumerGroup
	fn      func(context.Context, rawSession) error
	sitting *sitting      // nil before the first generation
	failing time.Duration // the pause after fn's last error; zero after success
	warned  time.Time     // when a failed join was last logged

	assigned atomic.Pointer[int] // partitions that this member has just assigned as the group's leader; else nil
}

// warn logs that joining failed, at most every ten seconds: while the broker is away it fails three times a second.
func (m *member) warn(err error) {
	if time.Since(m.warned) < warnEvery {
		return
	}
	m.warned = time.Now()
	m.k.cfg.Logger.Warn("joining the group is being tried again", "queue", m.sub.topic, "err", err)
}

// sitting is a session under way. It outlives its generation until the next one is there: who can't reach the group's
// coordinator goes on with the partitions that it had. Another member may have them by then, which costs both a look at
// rows that the other has settled.
type sitting struct {
	session *kafkaSession
	over    func()        // loses the session, which fn has to notice
	done    chan struct{} // closed when fn has returned
}

// serve runs fn over one generation, and returns when the generation has ended. While fn has not returned heartbeats go
// on, so that it can finish in peace when ctx ends.
func (m *member) serve(ctx context.Context, gen *kafka.Generation) {
	if assigned := m.assigned.Swap(nil); assigned != nil {
		gen.Start(func(ctx context.Context) { m.watch(ctx, *assigned) })
	}
	m.sitting = m.sit(ctx, gen)
	ended := make(chan struct{})
	gen.Start(func(genCtx context.Context) {
		defer close(ended)
		select {
		case <-genCtx.Done():
			m.sitting.session.beyond.Store(true)
			return
		case <-m.sitting.done:
		}
		if ctx.Err() == nil {
			return
		}
		// Returning ends the generation and would let the group join once more: it must be closing by then.
		go func() { _ = m.group.Close() }()
		<-genCtx.Done()
	})
	<-ended
}

// relieved ends the session that is under way, and tells whether its fn has returned in time.
func (m *member) relieved() bool {
	if m.sitting == nil {
		return true
	}
	m.sitting.over()
	select {
	case <-m.sitting.done:
		m.sitting = nil
		return true
	case <-time.After(rebalanceBound):
		return false
	}
}

// standAside leaves the group until fn has returned: a member that doesn't work must not keep its partitions from those
// that do.
func (m *member) standAside() error {
	m.k.leave(m.group, m.sub)
	m.await()
	return m.enter()
}

// await ends the session that is under way and waits for its fn.
func (m *member) await() {
	if m.sitting != nil {
		m.sitting.over()
		<-m.sitting.done
		m.sitting = nil
	}
}

func (m *member) sit(ctx context.Context, gen *kafka.Generation) *sitting {
	ctx, end := context.WithCancel(ctx)
	lost := make(chan struct{})
	s := &sitting{over: sync.OnceFunc(func() { close(lost); end() }), done: make(chan struct{})}
	s.session = newKafkaSession(m.k, m.sub.topic, gen, lost)
	go func() {
		defer close(s.done)
		m.work(ctx, s.session, gen)
	}()
	return s
}

func (m *member) work(ctx context.Context, s *kafkaSession, gen *kafka.Generation) {
	log := m.k.cfg.Logger.With("queue", m.sub.topic, "epoch", gen.ID)
	log.Info("session began", "n", len(s.partitions))
	if len(s.partitions) == 0 {
		m.recreate(ctx, log)
	}
	err := s.run(ctx, gen.Assignments[m.sub.topic], m.fn)
	if err == nil || ctx.Err() != nil {
		m.failing = 0
		return
	}
	m.failing = min(max(2*m.failing, brokenBackoff), lastBackoff)
	log.Warn("session ended with an error", "err", err)
	_ = sleep(ctx, m.failing)
}

// recreate creates the topic again when nothing was assigned because it is gone (the broker's data was wiped).
func (m *member) recreate(ctx context.Context, log *slog.Logger) {
	if err := m.k.ensureSoon(ctx, m.topic); err != nil && ctx.Err() == nil {
		log.Warn("waiting for the topics", "err", err)
	}
}
