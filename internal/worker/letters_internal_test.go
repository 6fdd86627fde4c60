package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	dto "github.com/prometheus/client_model/go"

	"github.com/duetime/duetime/internal/protocol"
)

// silent is a dead topic that never answers.
type silent struct{}

func (silent) Bury(ctx context.Context, _ []protocol.DeadLetter) error {
	<-ctx.Done()
	return ctx.Err()
}

// However many tasks die in one transaction, few letters wait for a dead topic that is away.
func TestDeadLettersThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(nil)
		l := newLetters(silent{}, m, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.run(ctx, ctx)
		l.Bury(make([]protocol.DeadLetter, 1))
		synctest.Wait() // it is being sent
		for range 100 {
			l.Bury(make([]protocol.DeadLetter, maxQueuedLetters/50))
		}
		var lost dto.Metric
		if err := m.unburied.Write(&lost); err != nil || lost.GetCounter().GetValue() != maxQueuedLetters {
			t.Errorf("%v letters were passed over, want %d (%v)", lost.GetCounter().GetValue(), maxQueuedLetters, err)
		}
	})
}
