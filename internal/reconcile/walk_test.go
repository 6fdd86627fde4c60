package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// numbers reads one row a page, due at the seconds from 1 to n; all are in shard 1.
func numbers(n int64) readPage {
	return func(_ context.Context, after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
		at := time.Unix(1, 0)
		if !after.At.IsZero() {
			at = after.At.Add(time.Second)
		}
		next := protocol.Cursor{At: at}
		if at.Unix() == n {
			next = protocol.Cursor{}
		}
		return []task.Task{{RunAt: at, Shard: 1}}, next, nil
	}
}

func TestWalkKeepsItsPlace(t *testing.T) {
	t.Parallel()
	var w walk
	var walked []int64
	broken := errors.New("broken")
	for _, c := range []struct {
		enough func(int) bool
		fails  bool
		over   bool
		want   []int64
	}{
		{upTo(2), false, false, []int64{1, 2}},
		{upTo(2), true, false, nil}, // it stays before the page
		{upTo(1), false, false, []int64{3}},
		{nil, false, true, []int64{4, 5}},
		{upTo(1), false, false, []int64{1}}, // it has begun anew
	} {
		walked = nil
		s := (&Reconciler{}).sweep(pass{}, time.Now)
		over, err := w.pages(t.Context(), s, numbers(5), c.enough, func(rows []task.Task) error {
			if c.fails {
				return broken
			}
			walked = append(walked, rows[0].RunAt.Unix())
			return nil
		})
		if over != c.over || errors.Is(err, broken) != c.fails || !slices.Equal(walked, c.want) {
			t.Errorf("walked %v, over %v, %v; want %+v", walked, over, err, c)
		}
	}
}

// Page after page of a shard that fails: the pass ends, and the next one goes on behind these pages.
func TestWalkEndsAmongRowsOfAFailedShard(t *testing.T) {
	t.Parallel()
	var w walk
	for _, want := range []int64{maxFailedPages, 2 * maxFailedPages} {
		s := (&Reconciler{}).sweep(pass{}, time.Now)
		pipelinetest.Must(t, s.index.skip(&protocol.ShardsError{Shards: map[int]error{1: errTorn}}))
		_, err := w.pages(t.Context(), s, numbers(100), nil, func([]task.Task) error { return nil })
		if _, partial := protocol.FailedShards(err); !partial || w.after.At.Unix() != want {
			t.Errorf("ended behind second %d with %v, want %d and the shard's error", w.after.At.Unix(), err, want)
		}
	}
}
