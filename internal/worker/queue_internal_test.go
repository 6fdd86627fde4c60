package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/internal/offsets"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
)

// endless is a session with a hint of another task at each Fetch.
type endless struct{ protocol.Session }

func (endless) Fetch(context.Context) ([]protocol.Delivery, error) {
	return []protocol.Delivery{{Hint: protocol.Hint{ID: task.NewID()}}}, nil
}

// The queues of a worker share what one may hold. One that holds more than its share leaves the others theirs.
func TestQueuesShareWhatAWorkerHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		clock := loop.NewClock(nil, log, nil)
		w := &Worker{cfg: Config{MaxUncommitted: 100}, clock: clock, letters: &letters{}}
		w.gate = settle.New(settle.Config{Logger: log}, nil, nil, clock, nil, nil).Gate()
		for range 2 {
			w.queues = append(w.queues, &queue{worker: w, hold: hold.New(clock)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i, want := range []int{100, 50} {
			q := w.queues[i]
			go q.fetch(ctx, &generation{session: endless{}, offsets: offsets.NewGeneration(nil)})
			if synctest.Wait(); q.hold.Len() != want {
				t.Errorf("queue %d holds %d hints, want %d", i, q.hold.Len(), want)
			}
		}
	})
}
