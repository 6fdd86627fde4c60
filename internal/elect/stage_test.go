package elect_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/elect"
)

// stage is a world with candidates and the index that they write.
type stage struct {
	world
	*index
	epochs *counter
	cfg    elect.Config
}

// player is one candidate with an elector of its own, like a process.
type player struct {
	who     string
	elector *elect.ZooKeeper
	cancel  context.CancelFunc
	left    chan struct{} // closed when Lead returned
}

func newStage(w world) *stage {
	return &stage{world: w, index: newIndex(), epochs: newCounter(), cfg: elect.Config{
		SessionTimeout: 4 * time.Second, StallAfter: time.Second, PollEvery: 50 * time.Millisecond,
		RetryMin: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}}
}

// stand opens an elector and calls Lead.
func (s *stage) stand(t *testing.T, who string) *player {
	t.Helper()
	e := s.open(t, s.cfg, s.epochs)
	ctx, cancel := context.WithCancel(t.Context())
	p := &player{who: who, elector: e, cancel: cancel, left: make(chan struct{})}
	go func() {
		defer close(p.left)
		if err := e.Lead(ctx, office, s.lead(who)); err != nil {
			t.Errorf("Lead of %s: %v", who, err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-p.left
		if err := e.Close(); err != nil {
			t.Errorf("Close of %s: %v", who, err)
		}
	})
	return p
}

// leads waits until a candidate's claims are accepted under an epoch above floor, and returns that epoch.
func (s *stage) leads(t *testing.T, who string, floor int64) (epoch int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s leads above epoch %d", who, floor), func() bool {
		return read(s.index, func() bool { epoch = s.stored; return s.by == who && epoch > floor })
	})
	return epoch
}

// leader waits until some candidate leads under an epoch above floor.
func (s *stage) leader(t *testing.T, floor int64) (who string, epoch int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("somebody leads above epoch %d", floor), func() bool {
		return read(s.index, func() bool { who, epoch = s.by, s.stored; return epoch > floor })
	})
	return who, epoch
}

// goesOn waits until n further claims of a candidate were accepted.
func (s *stage) goesOn(t *testing.T, who string, n int) {
	t.Helper()
	from := read(s.index, func() int { return s.claims[who] })
	eventually(t, who+" goes on", func() bool {
		return read(s.index, func() bool { return s.claims[who] >= from+n })
	})
}

func (s *stage) runs(who string) bool {
	return read(s.index, func() bool { return s.running[who] > 0 })
}
