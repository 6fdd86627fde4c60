package elect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/elect"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

const office = "event"

// world is an ensemble without candidates.
type world struct {
	open   func(t *testing.T, cfg elect.Config, epochs elect.Epochs) *elect.ZooKeeper
	depose func(t *testing.T)     // removes the first candidate's place
	count  func(t *testing.T) int // number of candidates
	dir    string                 // ZooKeeper's queue
}

func TestConformance(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		run  func(t *testing.T, s *stage)
	}{
		{"one leader at a time", oneLeaderAtATime},
		{"fenced while first takes a higher epoch", fencedWhileFirst},
		{"fenced without a place ends the term", fencedWithoutPlace},
		{"a counter that fell back is raised", counterFellBack},
		{"a place lost and won back keeps the term", keepsTheTerm},
		{"a stalled leader is replaced", stalledLeader},
		{"a stalled leader without rivals starts anew", stalledAlone},
		{"a function that returns is replaced", functionReturns},
		{"a function that never returns is replaced", functionHangs},
		{"no epoch, no leadership", noEpoch},
		{"frozen between place and epoch", frozenBeforeEpoch},
		{"an unreadable counter ends nothing", counterAway},
		{"shutdown in every state", shutdown},
		{"changes are told", changes},
	}
	for name, open := range map[string]func(*testing.T) world{
		"zookeeper":                    func(t *testing.T) world { return zooWorld(t, pipelinetest.ZooKeeper(t).Addr()) },
		"zookeeper with TLS and names": newVault(t).world,
	} {
		for _, tc := range cases {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				tc.run(t, newStage(open(t)))
			})
		}
	}
}

func oneLeaderAtATime(t *testing.T, s *stage) {
	players := map[string]*player{}
	for _, who := range []string{"a", "b", "c"} {
		players[who] = s.stand(t, who)
	}
	var epoch int64
	var took []time.Duration
	for round := range 8 {
		var who string
		who, epoch = s.leader(t, epoch)
		begin := time.Now()
		s.with(func() { s.told[who] = begin })
		if round%2 == 0 {
			players[who].cancel()
			<-players[who].left
		} else if err := players[who].elector.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		s.leader(t, epoch)
		took = append(took, time.Since(begin))
		players[who+"'"] = s.stand(t, who+"'")
	}
	slices.Sort(took)
	t.Logf("hand-overs: %s", took)
	if median := took[len(took)/2]; median > time.Second { // a session's end takes four
		t.Errorf("median hand-over %s, want milliseconds", median)
	}
	if most := read(s.index, func() int { return s.most }); most != 1 {
		t.Errorf("functions at once: got %d, want 1", most)
	}
	if starts := read(s.index, func() []int64 { return slices.Clone(s.starts) }); !slices.IsSorted(starts) {
		t.Errorf("epochs %v don't grow", starts)
	}
}

func fencedWhileFirst(t *testing.T, s *stage) {
	s.cfg.StallAfter = limit // a slow server must not end the wait for an epoch
	s.stand(t, "a")
	s.leads(t, "a", 0)
	for _, ahead := range []int64{1000, 2000} { // the index was ahead: the counter was restored from a backup
		s.with(func() { s.stored, s.by = ahead, "nobody" })
		if got := s.leads(t, "a", ahead); got != ahead+1 {
			t.Errorf("epoch after a fence at %d: got %d", ahead, got)
		}
	}
	if most := read(s.index, func() int { return s.most }); most != 1 {
		t.Errorf("functions at once: got %d, want 1", most)
	}
}

func fencedWithoutPlace(t *testing.T, s *stage) {
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.stand(t, "b")
	s.queued(t, 2)
	s.depose(t)
	epoch = s.leads(t, "b", epoch)
	eventually(t, "a ends", func() bool { return !s.runs("a") })
	s.goesOn(t, "b", 50)
	if got := read(s.index, func() int64 { return s.stored }); got != epoch {
		t.Errorf("epoch %d while b leads, want %d: a fenced candidate outranked it", got, epoch)
	}
}

// The counter falls back to where the next candidate would take the leader's epoch: no fence would tell them apart.
func counterFellBack(t *testing.T, s *stage) {
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.stand(t, "b")
	s.queued(t, 2)
	s.epochs.fallBack(office, epoch-1)
	eventually(t, "the counter is at a's epoch", func() bool {
		current, _ := s.epochs.Current(t.Context(), office)
		return current == epoch
	})
	s.depose(t)
	s.leads(t, "b", epoch)
	eventually(t, "a ends", func() bool { return !s.runs("a") })
}

// queued waits until n candidates stand.
func (s *stage) queued(t *testing.T, n int) {
	t.Helper()
	eventually(t, "candidates stand", func() bool { return s.count(t) == n })
}

func keepsTheTerm(t *testing.T, s *stage) {
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	for range 3 {
		s.depose(t)
		s.queued(t, 1)
		s.goesOn(t, "a", 50)
	}
	if got := read(s.index, func() []int64 { return slices.Clone(s.starts) }); !slices.Equal(got, []int64{epoch}) {
		t.Errorf("terms started: got %v, want only %d", got, epoch)
	}
}

func stalledLeader(t *testing.T, s *stage) {
	a := s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.stand(t, "b")
	s.queued(t, 2)
	s.with(func() { s.mute["a"] = true })
	epoch = s.leads(t, "b", epoch)
	eventually(t, "the counter ends a's silent term", func() bool { return !s.runs("a") })
	s.with(func() { s.mute = map[string]bool{"b": true} })
	s.leads(t, "a", epoch)
	a.cancel()
	<-a.left
}

func stalledAlone(t *testing.T, s *stage) {
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.with(func() { s.mute["a"] = true })
	eventually(t, "a second term", func() bool { return read(s.index, func() bool { return len(s.starts) > 1 }) })
	s.with(func() { s.mute["a"] = false })
	s.leads(t, "a", epoch)
	if most := read(s.index, func() int { return s.most }); most != 1 {
		t.Errorf("functions at once: got %d, want 1", most)
	}
}

func functionReturns(t *testing.T, s *stage) {
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.with(func() { s.fail["a"] = errors.New("broken") })
	epoch = s.leads(t, "a", epoch)
	s.stand(t, "b")
	s.queued(t, 2)
	s.with(func() { s.fail["a"] = errors.New("broken again") })
	s.leads(t, "b", epoch)
}

func functionHangs(t *testing.T, s *stage) {
	release := make(chan struct{})
	s.with(func() { s.stuck["a"] = release })
	s.stand(t, "a")
	once := sync.OnceFunc(func() { close(release) })
	t.Cleanup(once) // runs before the player's clean-up, which waits for the function
	epoch := s.leads(t, "a", 0)
	s.stand(t, "b")
	s.queued(t, 2)
	s.with(func() { s.mute["a"] = true })
	epoch = s.leads(t, "b", epoch)
	s.with(func() { s.mute["b"] = true }) // a comes first again but can't begin: its old function hangs
	epoch = s.leadsAfterUnmute(t, "b", epoch)
	once()
	s.with(func() { s.mute = map[string]bool{"b": true} })
	s.leads(t, "a", epoch)
	if n := read(s.index, func() int { return s.running["a"] }); n != 1 {
		t.Errorf("functions of a: got %d, want 1", n)
	}
}

// leadsAfterUnmute waits until a candidate gets a further term, then lets it work.
func (s *stage) leadsAfterUnmute(t *testing.T, who string, floor int64) int64 {
	t.Helper()
	eventually(t, who+" has a further term", func() bool {
		return read(s.index, func() bool { return s.starts[len(s.starts)-1] > floor && s.running[who] > 0 })
	})
	s.with(func() { s.mute[who] = false })
	return s.leads(t, who, floor)
}

func noEpoch(t *testing.T, s *stage) {
	var mu sync.Mutex
	var tries []time.Time
	s.epochs.setHook(func(_ context.Context, op string) error {
		if op == "take" {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Now())
			return errors.New("database away")
		}
		return nil
	})
	s.stand(t, "a")
	s.stand(t, "b")
	eventually(t, "several tries", func() bool { mu.Lock(); defer mu.Unlock(); return len(tries) >= 6 })
	if n := read(s.index, func() int { return len(s.starts) }); n != 0 {
		t.Errorf("terms without an epoch: %d", n)
	}
	hung := make(chan struct{}, 100)
	s.epochs.setHook(func(ctx context.Context, op string) error {
		if op == "take" { // bounded by StallAfter
			<-ctx.Done()
			hung <- struct{}{}
			return ctx.Err()
		}
		return nil
	})
	<-hung
	s.epochs.setHook(nil)
	s.leader(t, 0)
}

func frozenBeforeEpoch(t *testing.T, s *stage) {
	frozen, thaw := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.epochs.setHook(func(_ context.Context, op string) error {
		if op == "take" {
			mine := false
			once.Do(func() { mine = true })
			if mine {
				close(frozen)
				<-thaw
			}
		}
		return nil
	})
	s.stand(t, "a")
	<-frozen
	s.stand(t, "b")
	s.queued(t, 2)
	s.depose(t)
	epoch := s.leads(t, "b", 0)
	close(thaw) // a takes the higher epoch, but has lost its place
	eventually(t, "a took its epoch", func() bool {
		current, _ := s.epochs.Current(t.Context(), office)
		return current > epoch
	})
	s.goesOn(t, "b", 100)
	if got := read(s.index, func() []int64 { return slices.Clone(s.starts) }); !slices.Equal(got, []int64{epoch}) {
		t.Errorf("terms started: got %v, want only b's %d", got, epoch)
	}
}

func counterAway(t *testing.T, s *stage) {
	s.stand(t, "a")
	epoch := s.leads(t, "a", 0)
	s.epochs.setHook(func(context.Context, string) error { return errors.New("database away") })
	s.depose(t)
	s.goesOn(t, "a", 200)
	if got := read(s.index, func() int64 { return s.stored }); got != epoch {
		t.Errorf("epoch got %d, want %d", got, epoch)
	}
	s.epochs.setHook(nil)
	s.goesOn(t, "a", 50)
}

func shutdown(t *testing.T, s *stage) {
	a := s.stand(t, "a")
	s.leads(t, "a", 0)
	b := s.stand(t, "b")
	s.queued(t, 2)
	if err := b.elector.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	err := a.elector.Lead(t.Context(), office, s.lead("a"))
	if !errors.Is(err, elect.ErrCandidate) {
		t.Errorf("second Lead for a name: got %v, want ErrCandidate", err)
	}
	if err := a.elector.Lead(t.Context(), "a/b", s.lead("a")); err == nil {
		t.Error("a name with a slash was accepted")
	}
	for _, p := range []*player{b, a, a} { // waiting, leading, closed
		begin := time.Now()
		if err := p.elector.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		<-p.left
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("Close of %s took %s", p.who, took)
		}
	}
	if err := a.elector.Lead(t.Context(), office, nil); err != nil {
		t.Errorf("Lead after Close: %v", err)
	}
}

func changes(t *testing.T, s *stage) {
	var mu sync.Mutex
	var told []string
	s.cfg.OnChange = func(name string, leading bool, epoch int64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%s %t %d", name, leading, epoch))
	}
	a := s.stand(t, "a")
	first := s.leads(t, "a", 0)
	a.cancel()
	<-a.left
	a = s.stand(t, "a")
	s.leads(t, "a", first)
	a.cancel()
	<-a.left
	mu.Lock()
	defer mu.Unlock()
	var want []string
	for _, epoch := range read(s.index, func() []int64 { return s.starts }) {
		want = append(want, fmt.Sprintf("event true %d", epoch), fmt.Sprintf("event false %d", epoch))
	}
	if diff := cmp.Diff(want, told); diff != "" || len(told) < 4 {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
