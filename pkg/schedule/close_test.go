package schedule_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// hanging is an index and a compensation topic that never answer.
type hanging struct{ schedule.Index }

func (hanging) Put(ctx context.Context, _ []task.Task) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) Compensate(ctx context.Context, _ protocol.Compensation) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCloseGivesUpOnWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := schedule.Config{PutTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)}
		c, err := schedule.New(cfg, struct{ schedule.Store }{}, hanging{}, hanging{})
		if err != nil {
			t.Fatal(err)
		}
		schedule.InsideClient(inside.Key{}, c).Ledger().Writer().PutAndWait(t.Context(), []task.Task{{ID: task.NewID(), Version: 1}})
		began := time.Now()
		c.Close(t.Context())
		if got := time.Since(began); got != 2*time.Second {
			t.Errorf("Close took %v, want 2s", got)
		}
	})
}
