package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

const (
	historyEvery   = 200 * time.Millisecond // between writes
	historyMost    = 10_000                 // lines that wait for the next one
	historyTimeout = 2 * time.Second        // of one write
)

// Events returns what the changes of this try mean to people, in their order and without an actor, but for those that Tell
// has written.
func (t *Tx) Events() []task.Event { return t.told[t.wrote:] }

// Tell writes the history of the changes so far into the transaction itself, instead of after its commit: it is written
// exactly if they are. It costs a statement.
func (t *Tx) Tell(ctx context.Context) error {
	if err := t.rows.Record(ctx, t.db, by(t.actor, t.Events())); err != nil {
		return t.spoil(fmt.Errorf("tell of %d changes: %w", len(t.Events()), err))
	}
	t.wrote = len(t.told)
	return nil
}

func by(actor string, events []task.Event) []task.Event {
	for i := range events {
		events[i].Actor = actor
	}
	return events
}

// recorder is what the history needs of the store.
type recorder interface {
	Record(ctx context.Context, q sqlx.ExtContext, events []task.Event) error
}

// history collects lines and writes them behind their callers' backs.
type history struct {
	to    recorder
	actor string
	m     metrics
	log   *slog.Logger
	wake  chan struct{} // holds one: something is waiting
	end   chan struct{} // closed when no more comes

	mu      sync.Mutex
	waiting []task.Event
	closed  bool
}

func newHistory(cfg Config, to recorder, m metrics) *history {
	return &history{
		to: to, actor: cfg.Actor, m: m, log: cfg.Logger, wake: make(chan struct{}, 1), end: make(chan struct{}),
	}
}

// add never waits.
func (h *history) add(events []task.Event) {
	if len(events) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	room := historyMost - len(h.waiting)
	if h.closed {
		room = 0
	}
	if room < len(events) {
		h.m.untold.Add(float64(len(events) - room))
		events = events[:room]
	}
	h.waiting = append(h.waiting, by(h.actor, events)...)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *history) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.end)
	}
}

// run writes what has come in, again and again, and the rest once closed. The end of ctx makes writes fail at once.
func (h *history) run(ctx context.Context) {
	for open := true; open; {
		select {
		case <-h.wake:
		case <-h.end:
		}
		company := time.NewTimer(historyEvery)
		select {
		case <-company.C:
		case <-h.end:
			open = false
		}
		company.Stop()
		h.write(ctx)
	}
}

func (h *history) write(ctx context.Context) {
	h.mu.Lock()
	events := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if err := h.to.Record(ctx, nil, events); err != nil {
		h.m.untold.Add(float64(len(events)))
		h.log.DebugContext(ctx, "history dropped", "n", len(events), "err", err)
	}
}
