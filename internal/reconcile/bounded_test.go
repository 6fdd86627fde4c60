package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// deaf is a store that never answers.
type deaf struct{ Store }

func (deaf) Pending(ctx context.Context, _, _ time.Time, _ task.Cursor, _ int) ([]task.Task, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A server was cut off while it read a page. The pass must not wait until the connection counts as lost.
func TestReadWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := bounded{deaf{}}.Pending(t.Context(), began, began, task.Cursor{}, page)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != readTimeout {
			t.Errorf("ended after %v with %v", took, err)
		}
	})
}
