package elect

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// Ballot is the queue that in-process candidates share, in place of an ensemble. Make it by NewBallot.
type Ballot struct {
	mu     sync.Mutex
	queues map[string][]*seat
}

// seat is one place in a queue; left is closed when the seat was removed.
type seat struct{ left chan struct{} }

// NewBallot returns an empty ballot.
func NewBallot() *Ballot { return &Ballot{queues: map[string][]*seat{}} }

// Depose removes the first candidate's place, as an expired session does, and reports whether there was one. The deposed
// leader goes on until its successor's epoch fences it.
func (b *Ballot) Depose(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queues[name]) == 0 {
		return false
	}
	b.removeLocked(name, b.queues[name][0])
	return true
}

// Candidates returns the number of candidates for name.
func (b *Ballot) Candidates(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queues[name])
}

func (b *Ballot) add(name string) *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &seat{left: make(chan struct{})}
	b.queues[name] = append(b.queues[name], s)
	return s
}

func (b *Ballot) remove(name string, s *seat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(name, s)
}

func (b *Ballot) removeLocked(name string, s *seat) {
	i := slices.Index(b.queues[name], s)
	if i < 0 {
		return
	}
	b.queues[name] = slices.Delete(b.queues[name], i, i+1)
	close(s.left)
}

// before returns the seat ahead of s, nil if s is first, and whether s is in the queue.
func (b *Ballot) before(name string, s *seat) (ahead *seat, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queues[name], s)
	if i <= 0 {
		return nil, i == 0
	}
	return b.queues[name][i-1], true
}

// Local is the in-process twin of ZooKeeper: the same terms, epochs and rules over a Ballot.
type Local struct{ *elector }

// NewLocal returns an elector whose candidates queue in ballot. It ignores cfg's fields about ZooKeeper.
func NewLocal(cfg Config, ballot *Ballot, epochs Epochs) (*Local, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("in-process elector: %w", err)
	}
	open := func(name string, _ *slog.Logger) place { return &localPlace{ballot: ballot, name: name} }
	return &Local{newElector(cfg.withDefaults(), epochs, open)}, nil
}

// Close ends every Lead, waits for their functions and gives up their places. It returns nil.
func (l *Local) Close() error {
	l.stop()
	return nil
}

// localPlace is a place in a Ballot.
type localPlace struct {
	ballot *Ballot
	name   string
	seat   *seat
}

func (p *localPlace) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("enter the queue for %s: %w", p.name, err)
	}
	p.vacate()
	p.seat = p.ballot.add(p.name)
	return nil
}

func (p *localPlace) await(ctx context.Context) error {
	for {
		ahead, found := p.ballot.before(p.name, p.seat)
		switch {
		case !found:
			return errPlaceLost
		case ahead == nil:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait in the queue for %s: %w", p.name, ctx.Err())
		case <-p.seat.left:
		case <-ahead.left:
		}
	}
}

func (p *localPlace) first(context.Context) (bool, error) {
	ahead, found := p.ballot.before(p.name, p.seat)
	return found && ahead == nil, nil
}

func (p *localPlace) awaitLoss(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.seat.left:
	}
}

func (p *localPlace) connected() bool { return true }

func (p *localPlace) leave(context.Context) error {
	p.vacate()
	return nil
}

func (p *localPlace) vacate() {
	if p.seat != nil {
		p.ballot.remove(p.name, p.seat)
	}
}
