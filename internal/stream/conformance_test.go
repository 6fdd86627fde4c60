package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// under is a stream under test, in a namespace of its own.
type under struct {
	*stream.Kafka
	garbage func(t *testing.T, topic string, value []byte) // appends a message without encoding
	cfg     stream.Config
}

func conform(t *testing.T, open func(t *testing.T, cfg stream.Config) under) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, under){
		"an owner's hints come in order":                testOrder,
		"an error concerns its entry alone":             testEntryErrors,
		"two consumers split the partitions":            testSplit,
		"what was not committed is delivered again":     testRedelivery,
		"the rest of a session can still be committed":  testDrain,
		"a commit after the session is refused":         testOldCommit,
		"garbage is delivered as such":                  testGarbage,
		"a session ends with an error and comes again":  testFailingConsumer,
		"a compensation comes until it is accepted":     testCompensation,
		"the backlog explains only the owner's own":     testBacklog,
		"a large compensation takes several messages":   testLargeCompensation,
		"a dead letter of any size is taken":            testBury,
		"consuming ends with its context, idle or not":  testStop,
		"one queue's missing topic doesn't stop others": testMissingTopic,
		"a further queue's topic is made":               testFurtherQueues,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := stream.Config{
				Namespace: pipelinetest.Namespace(t), Queues: []string{"default", "other"}, Partitions: 4,
				Logger: testLogger(t),
			}
			test(t, open(t, cfg))
		})
	}
}

func entry(owner string, n int) protocol.Entry {
	at := time.UnixMilli(1_800_000_000_000 + int64(n))
	return protocol.Entry{
		ID: task.NewID(), Kind: "pet.meal_finished", Queue: "default", Owner: owner,
		Score: protocol.ScoreOf(task.Task{RunAt: at, Version: int64(n % 100)}),
	}
}

func publish(t *testing.T, u under, entries ...protocol.Entry) {
	t.Helper()
	if errs := u.Publish(t.Context(), entries, 7); errs != nil {
		t.Fatalf("publish: %v", errors.Join(errs...))
	}
}

// consumer is a call of Consume in the background.
type consumer struct {
	t        *testing.T
	sessions chan *held
	cancel   context.CancelFunc
	done     chan error
}

// held is a session that goes on until the test releases it.
type held struct {
	protocol.Session
	ctx     context.Context
	release chan error
}

func consume(t *testing.T, u under, queue string) *consumer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{t: t, sessions: make(chan *held), cancel: cancel, done: make(chan error, 1)}
	go func() {
		c.done <- u.Consume(ctx, queue, func(ctx context.Context, s protocol.Session) error {
			h := &held{Session: s, ctx: ctx, release: make(chan error, 1)}
			select {
			case c.sessions <- h:
			case <-ctx.Done():
				return nil
			}
			select {
			case err := <-h.release:
				return err
			case <-ctx.Done():
				select {
				case err := <-h.release:
					return err
				case <-time.After(50 * time.Millisecond): // a test that needs the session longer releases it later
					return nil
				}
			}
		})
	}()
	t.Cleanup(c.stop)
	return c
}

func (c *consumer) session() *held {
	c.t.Helper()
	select {
	case h := <-c.sessions:
		return h
	case <-time.After(time.Minute):
		c.t.Fatal("no session within a minute")
		return nil
	}
}

func (c *consumer) stop() {
	c.cancel()
	select {
	case err := <-c.done:
		if err != nil {
			c.t.Errorf("consume: %v", err)
		}
		c.done <- nil
	case <-time.After(time.Minute):
		c.t.Error("consume did not end within a minute")
	}
}

// fetch fetches n deliveries of a session.
func fetch(t *testing.T, h *held, n int) []protocol.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out []protocol.Delivery
	for len(out) < n {
		ds, err := h.Fetch(ctx)
		if err != nil {
			t.Fatalf("fetch after %d of %d: %v", len(out), n, err)
		}
		out = append(out, ds...)
	}
	return out
}

func next(ds []protocol.Delivery) map[int]int64 {
	out := map[int]int64{}
	for _, d := range ds {
		out[d.Partition] = max(out[d.Partition], d.Offset+1)
	}
	return out
}

func testOrder(t *testing.T, u under) {
	const owners, each = 6, 50
	want := map[string][]protocol.Hint{}
	for i := range each {
		var entries []protocol.Entry
		for o := range owners {
			e := entry(fmt.Sprintf("owner-%d", o), i)
			entries = append(entries, e)
			want[e.Owner] = append(want[e.Owner], protocol.Hint{
				ID: e.ID, Kind: e.Kind, Owner: e.Owner, RunAt: e.Score.RunAt().UnixMilli(), Version: e.Score.Version(), Epoch: 7,
			})
		}
		publish(t, u, entries...)
	}
	h := consume(t, u, "default").session()
	if diff := cmp.Diff([]int{0, 1, 2, 3}, slices.Sorted(slices.Values(h.Partitions()))); diff != "" {
		t.Errorf("partitions: %s", diff)
	}
	got := map[string][]protocol.Hint{}
	places := map[string]int{}
	for _, d := range fetch(t, h, owners*each) {
		if d.Err != nil {
			t.Fatalf("delivery: %v", d.Err)
		}
		if p, seen := places[d.Hint.Owner]; seen && p != d.Partition {
			t.Errorf("%s is in partitions %d and %d", d.Hint.Owner, p, d.Partition)
		}
		places[d.Hint.Owner] = d.Partition
		got[d.Hint.Owner] = append(got[d.Hint.Owner], d.Hint)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hints (-want +got): %s", diff)
	}
}

func testEntryErrors(t *testing.T, u under) {
	bad := entry("", 1)
	broken := entry("someone", 2)
	broken.Err = errors.New("short member")
	strange := entry("someone", 3)
	strange.Queue = "no such:queue"
	huge := entry("someone", 4)
	huge.Kind = string(make([]byte, 2<<20))
	entries := []protocol.Entry{entry("a", 0), bad, broken, entry("b", 1), strange, huge}
	errs := u.Publish(t.Context(), entries, 1)
	if len(errs) != len(entries) {
		t.Fatalf("got %d errors, want one per entry", len(errs))
	}
	for i, err := range errs {
		if fine := i == 0 || i == 3; fine != (err == nil) {
			t.Errorf("entry %d: %v", i, err)
		} else if !fine && !isPermanent(err) {
			t.Errorf("entry %d: %v is not permanent", i, err)
		}
	}
	ds := fetch(t, consume(t, u, "default").session(), 2)
	if len(ds) != 2 {
		t.Errorf("got %d deliveries, want 2", len(ds))
	}
}

func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

func testSplit(t *testing.T, u under) {
	a := consume(t, u, "default")
	first := a.session()
	b := consume(t, u, "default")
	<-first.Lost()
	ha, hb := a.session(), b.session()
	for len(ha.Partitions())+len(hb.Partitions()) != 4 { // another generation may begin first
		select {
		case ha = <-a.sessions:
		case hb = <-b.sessions:
		case <-time.After(time.Minute):
			t.Fatalf("partitions %v and %v are no split", ha.Partitions(), hb.Partitions())
		}
	}
	both := slices.Sorted(slices.Values(slices.Concat(ha.Partitions(), hb.Partitions())))
	if diff := cmp.Diff([]int{0, 1, 2, 3}, both); diff != "" {
		t.Errorf("partitions: %s", diff)
	}
	b.stop()
	if got := a.session().Partitions(); len(got) != 4 {
		t.Errorf("after the other left: partitions %v, want all", got)
	}
}

func testRedelivery(t *testing.T, u under) {
	e1, e2, e3 := entry("a", 1), entry("a", 2), entry("a", 3)
	publish(t, u, e1, e2, e3)
	c := consume(t, u, "default")
	h := c.session()
	ds := fetch(t, h, 3)
	if err := h.Commit(t.Context(), next(ds[:1])); err != nil {
		t.Fatalf("commit: %v", err)
	}
	c.stop()
	got := fetch(t, consume(t, u, "default").session(), 2)
	if len(got) != 2 || got[0].Hint.ID != e2.ID || got[1].Hint.ID != e3.ID {
		t.Errorf("got %v, want the second and third hint", got)
	}
}

func testDrain(t *testing.T, u under) {
	publish(t, u, entry("a", 1), entry("a", 2))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := u.Consume(ctx, "default", func(ctx context.Context, s protocol.Session) error {
		ds := fetch(t, &held{Session: s}, 2)
		cancel()
		<-ctx.Done()
		select {
		case <-s.Lost():
			return errors.New("membership ended before fn returned")
		case <-time.After(time.Second): // the session must outlive two heartbeats
		}
		return s.Commit(context.WithoutCancel(ctx), next(ds[:1]))
	})
	if err != nil {
		t.Fatalf("consume: %v", err)
	}
	if got := fetch(t, consume(t, u, "default").session(), 1); len(got) != 1 {
		t.Errorf("got %d deliveries, want the uncommitted one", len(got))
	}
}

func testOldCommit(t *testing.T, u under) {
	publish(t, u, entry("a", 1))
	c := consume(t, u, "default")
	h := c.session()
	ds := fetch(t, h, 1)
	h.release <- nil
	again := c.session()
	if err := h.Commit(t.Context(), next(ds)); !errors.Is(err, stream.ErrSessionOver) {
		t.Errorf("commit in an old session: %v, want ErrSessionOver", err)
	}
	if _, err := h.Fetch(t.Context()); !errors.Is(err, stream.ErrSessionOver) {
		t.Errorf("fetch in an old session: %v, want ErrSessionOver", err)
	}
	if err := again.Commit(t.Context(), next(fetch(t, again, 1))); err != nil {
		t.Errorf("commit in the new session: %v", err)
	}
}

func testGarbage(t *testing.T, u under) {
	values := [][]byte{nil, []byte("{"), []byte(`{"id":"x"}`), make([]byte, 100_000)}
	for _, v := range values {
		u.garbage(t, u.cfg.Namespace+".q.default", v)
	}
	publish(t, u, entry("a", 1))
	bad := 0
	for _, d := range fetch(t, consume(t, u, "default").session(), len(values)+1) {
		if d.Err != nil {
			bad++
			if len(d.Raw) > 8<<10 {
				t.Errorf("raw has %d bytes", len(d.Raw))
			}
		}
	}
	if bad != len(values) {
		t.Errorf("got %d undecodable deliveries, want %d", bad, len(values))
	}
}

func testFailingConsumer(t *testing.T, u under) {
	c := consume(t, u, "default")
	for range 3 {
		c.session().release <- errors.New("failed on purpose")
	}
	c.session()
}
