package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// endless consumes until the test ends, commits everything, and passes the hints on.
func endless(t *testing.T, u under) <-chan protocol.Delivery {
	t.Helper()
	out := make(chan protocol.Delivery, 10_000)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- u.Consume(ctx, "default", func(ctx context.Context, s protocol.Session) error {
			for {
				ds, err := s.Fetch(ctx)
				if err != nil {
					return nil //nolint:nilerr // the session is over
				}
				for _, d := range ds {
					out <- d
				}
				_ = s.Commit(ctx, next(ds)) // after a refusal the hints come again
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("consume: %v", err)
		}
	})
	return out
}

// eventually publishes an entry until it is acknowledged, and waits until it is delivered. It returns the duration of
// both.
func eventually(t *testing.T, u under, in <-chan protocol.Delivery, e protocol.Entry) time.Duration {
	t.Helper()
	begun := time.Now()
	pipelinetest.Await(t, "an acknowledged hint", func() bool {
		errs := u.Publish(t.Context(), []protocol.Entry{e}, 1)
		return errs == nil
	})
	for {
		select {
		case d := <-in:
			if d.Hint.ID == e.ID {
				return time.Since(begun)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s was not delivered within a minute", e.Owner)
		}
	}
}

func openOwn(t *testing.T, addr string, session time.Duration) under {
	t.Helper()
	return openKafka(t, addr, stream.Config{
		Namespace: pipelinetest.Namespace(t), Partitions: 4, SessionTimeout: session, Logger: testLogger(t),
	})
}

func TestBrokerKilledAndStarted(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnKafka(t)
	u := openOwn(t, server.Addr(), 6*time.Second)
	in := endless(t, u)
	for i := range 4 {
		eventually(t, u, in, entry(fmt.Sprintf("before-%d", i), i))
	}
	pipelinetest.Must(t, server.Kill())
	begun := time.Now()
	if errs := u.Publish(t.Context(), []protocol.Entry{entry("while", 1)}, 1); errs == nil || isPermanent(errs[0]) {
		t.Errorf("with the broker dead: %v, want an error that is not permanent", errs)
	}
	if d := time.Since(begun); d > 6*time.Second {
		t.Errorf("the error took %s", d)
	}
	if err := u.Ping(t.Context()); err == nil {
		t.Error("ping answers with the broker dead")
	}
	pipelinetest.Must(t, server.Start())
	for i := range 8 {
		t.Logf("healed after %s", eventually(t, u, in, entry(fmt.Sprintf("after-%d", i), i)))
	}
}

func TestBrokerWiped(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnKafka(t)
	u := openOwn(t, server.Addr(), 6*time.Second)
	in := endless(t, u)
	for i := range 20 {
		eventually(t, u, in, entry(fmt.Sprintf("before-%d", i%4), i))
	}
	pipelinetest.Must(t, server.Wipe())
	for i := range 8 {
		t.Logf("healed after %s", eventually(t, u, in, entry(fmt.Sprintf("after-%d", i), i)))
	}
}

func TestOffsetOutOfRange(t *testing.T) {
	t.Parallel()
	addr := pipelinetest.Kafka(t).Addr()
	u := openOwn(t, addr, 6*time.Second)
	topic, group := u.cfg.Namespace+".q.default", u.cfg.Namespace+".default"
	publish(t, u, entry("a", 1), entry("a", 2))
	h := consume(t, u, "default")
	first := h.session()
	ds := fetch(t, first, 2)
	pipelinetest.Must(t, first.Commit(t.Context(), next(ds)))
	h.stop()

	// The group's offset is beyond the log's end, as after a wipe of which only the offsets were saved.
	client := &kafka.Client{Addr: kafka.TCP(addr), Transport: &kafka.Transport{}}
	defer client.Transport.(*kafka.Transport).CloseIdleConnections()
	pipelinetest.Await(t, "offset 5000 to be committed, once the group has no member", func() bool {
		res, err := client.OffsetCommit(t.Context(), &kafka.OffsetCommitRequest{
			GroupID: group, GenerationID: -1,
			Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: ds[0].Partition, Offset: 5000}}},
		})
		return err == nil && res.Topics[topic][0].Error == nil
	})
	b := backlog(t, u)
	if !b.Explains("a", time.Now().Add(time.Second)) {
		t.Error("hints that will be read again explain nothing")
	}
	if got := fetch(t, consume(t, u, "default").session(), 2); got[0].Offset != 0 {
		t.Errorf("first offset %d, want the log's start", got[0].Offset)
	}
}

func TestRefusedSessionTimeout(t *testing.T) {
	t.Parallel()
	u := openOwn(t, pipelinetest.Kafka(t).Addr(), 500*time.Millisecond) // the broker's minimum is 6 s
	err := u.Consume(t.Context(), "default", func(context.Context, protocol.Session) error { return nil })
	if !isPermanent(err) || !strings.Contains(err.Error(), "kafka.session_timeout") {
		t.Errorf("got %v, want a permanent error that names kafka.session_timeout", err)
	}
}

func TestConsumerThatHangs(t *testing.T) {
	t.Parallel()
	u := openOwn(t, pipelinetest.Kafka(t).Addr(), 6*time.Second)
	publish(t, u, entry("a", 1))
	release := make(chan struct{})
	got := make(chan *held, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- u.Consume(ctx, "default", func(ctx context.Context, s protocol.Session) error {
			select {
			case got <- &held{Session: s, ctx: ctx}:
				<-release // ignores its context
			default:
				<-ctx.Done()
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("consume: %v", err)
		}
	})
	hanging := <-got
	ds := fetch(t, hanging, 1)
	other := consume(t, u, "default")
	h := other.session()
	for len(h.Partitions()) != 4 {
		h = other.session()
	}
	if err := hanging.Commit(t.Context(), next(ds)); !errors.Is(err, stream.ErrSessionOver) {
		t.Errorf("commit of a member that was given up: %v, want ErrSessionOver", err)
	}
	if again := fetch(t, h, 1); again[0].Hint.ID != ds[0].Hint.ID {
		t.Errorf("got %v, want the uncommitted hint", again)
	}
	close(release)
}

func TestEnsureIsSharedAndRepeatable(t *testing.T) {
	t.Parallel()
	addr := pipelinetest.Kafka(t).Addr()
	cfg := stream.Config{Namespace: pipelinetest.Namespace(t), Partitions: 8, Brokers: []string{addr}, Logger: testLogger(t)}
	errs := make(chan error, 6)
	for range cap(errs) {
		k, err := stream.NewKafka(cfg)
		pipelinetest.Must(t, err)
		t.Cleanup(func() { _ = k.Close() })
		go func() { errs <- errors.Join(k.Ensure(t.Context()), k.Ensure(t.Context())) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Errorf("ensure: %v", err)
		}
	}
}

// without is a Kafka without our topics.
func without(t *testing.T) *stream.Kafka {
	t.Helper()
	k, err := stream.NewKafka(stream.Config{
		Namespace: pipelinetest.Namespace(t), Partitions: 4,
		Brokers: []string{pipelinetest.Kafka(t).Addr()}, Logger: testLogger(t),
	})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func TestConsumeCreatesMissingTopics(t *testing.T) {
	t.Parallel()
	k := without(t)
	for _, queue := range []string{"default", "not-configured"} {
		if got := len(consume(t, under{Kafka: k}, queue).session().Partitions()); got != 4 {
			t.Errorf("%s: %d partitions, want 4", queue, got)
		}
	}
}

func TestPublishCreatesMissingTopics(t *testing.T) {
	t.Parallel()
	k := without(t)
	if errs := k.Publish(t.Context(), []protocol.Entry{entry("a", 1)}, 1); errs != nil {
		t.Errorf("publish: %v", errors.Join(errs...))
	}
}
