package indexwriter

import (
	"log/slog"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/duetime/duetime/pkg/task"
)

const (
	failuresToOpen  = 3                      // failed calls in a row that open the breaker of the index
	breakerOpenTime = 250 * time.Millisecond // afterwards one call probes the index, or the shard
)

// newIndexBreaker makes the breaker of the index as a whole.
func newIndexBreaker(logger *slog.Logger) *gobreaker.CircuitBreaker[[]task.Task] {
	return gobreaker.NewCircuitBreaker[[]task.Task](gobreaker.Settings{
		Name:        "index",
		Timeout:     breakerOpenTime,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresToOpen },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				logger.Warn("index is away, tasks go to compensation", "state", to.String())
			case to == gobreaker.StateClosed:
				logger.Info("index is back", "state", to.String())
			}
		},
	})
}

// Away reports whether the breaker of the index, or of the shard, is open.
func (w *Writer) Away(shard int) bool {
	return w.breaker.State() == gobreaker.StateOpen || w.shards.away(shard)
}
