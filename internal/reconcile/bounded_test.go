package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// deaf is a store that never answers.
type deaf struct{ Store }

func (deaf) PendingExcept(
	ctx context.Context, _ []string, _, _ time.Time, after protocol.Cursor, _ int,
) ([]task.Task, protocol.Cursor, error) {
	<-ctx.Done()
	return nil, after, ctx.Err()
}

// A server was cut off while it read a page. The pass must not wait until the connection counts as lost.
func TestReadWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := bounded{deaf{}}.PendingExcept(t.Context(), nil, began, began, protocol.Cursor{}, page)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != readTimeout {
			t.Errorf("ended after %v with %v", took, err)
		}
	})
}
