package console

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// world is one row, and an index that has no entry, or one that follows each move of the row.
type fakeWorld struct {
	row     task.Task
	indexed bool
	entries []protocol.Entry // of the due set
	looked  func()           // called between the reads of the row and of the index
}

func (w *fakeWorld) Now(context.Context, sqlx.QueryerContext) (time.Time, error) {
	return time.Now(), nil
}

func (w *fakeWorld) Get(_ context.Context, _ sqlx.QueryerContext, ids []task.ID) ([]task.Task, error) {
	if !slices.Contains(ids, w.row.ID) {
		return nil, nil
	}
	return []task.Task{w.row}, nil
}

func (w *fakeWorld) Pending(_ context.Context, _, to time.Time, _ protocol.Cursor, _ int) ([]task.Task, error) {
	if w.row.State != task.Pending || !w.row.RunAt.Before(to) {
		return nil, nil
	}
	return []task.Task{w.row}, nil
}

func (w *fakeWorld) Standings(_ context.Context, tasks []task.Task) ([]protocol.Standing, error) {
	w.looked()
	out := make([]protocol.Standing, len(tasks))
	for i := range tasks {
		out[i] = protocol.Standing{Due: protocol.NoScore, Owner: protocol.NoScore}
		if w.indexed {
			out[i] = protocol.Standing{Due: protocol.ScoreOf(w.row), Owner: protocol.ScoreOf(w.row)}
		}
		if len(w.entries) > 0 {
			out[i].Due = w.entries[0].Score
		}
	}
	return out, nil
}

func (w *fakeWorld) ScanDue(context.Context, int, protocol.ScanCursor, int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	return w.entries, protocol.ScanCursor{}, nil
}

func (w *fakeWorld) ScanOwners(context.Context, int, protocol.ScanCursor, int64) ([]protocol.Entry, protocol.ScanCursor, error) {
	return nil, protocol.ScanCursor{}, nil
}

func TestDrift(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *fakeWorld)
		want    Drift
		horizon time.Duration // the row is due in an hour
	}{
		"in order":           {func(w *fakeWorld) { w.indexed = true }, Drift{}, 0},
		"missing":            {func(*fakeWorld) {}, Drift{Missing: 1}, 0},
		"beyond the horizon": {func(*fakeWorld) {}, Drift{}, time.Hour - time.Second},
		"within the horizon": {func(*fakeWorld) {}, Drift{Missing: 1}, time.Hour + time.Minute},
		"near the horizon": {func(w *fakeWorld) {
			w.indexed = true
			w.entries = []protocol.Entry{{ID: w.row.ID, Score: protocol.ScoreOf(w.row)}}
		}, Drift{}, time.Hour - time.Second},
		"an entry beyond the horizon": {func(w *fakeWorld) {
			w.indexed = true
			w.entries = []protocol.Entry{{ID: w.row.ID, Score: protocol.ScoreOf(w.row)}}
		}, Drift{Extra: 1}, time.Hour - time.Minute},
		"an entry whose row's time no score can hold": {func(w *fakeWorld) {
			w.row.RunAt, w.indexed = time.UnixMilli(1.7e15), true
			w.entries = []protocol.Entry{{ID: w.row.ID, Score: protocol.ScoreOf(w.row)}}
		}, Drift{}, time.Hour},
		"soon repaired": {func(w *fakeWorld) { w.looked = w.onLook(2, func() { w.indexed = true }) }, Drift{}, 0},
		// The row and its entry move together, between the two reads.
		"moved at the first look": {func(w *fakeWorld) { w.indexed, w.looked = true, w.onLook(1, w.move) }, Drift{}, 0},
		"moved at the second look": {func(w *fakeWorld) {
			w.looked = w.onLook(2, func() { w.indexed = true; w.move() })
		}, Drift{}, 0},
		"ended at the second look": {func(w *fakeWorld) {
			w.looked = w.onLook(2, func() { w.row.State = task.Done })
		}, Drift{}, 0},
		"left in another queue": {func(w *fakeWorld) {
			w.indexed = true
			w.entries = []protocol.Entry{{ID: w.row.ID, Score: protocol.ScoreOf(w.row), Queue: "before"}}
		}, Drift{Extra: 1}, 0},
		"ghost": {func(w *fakeWorld) {
			w.entries = []protocol.Entry{{ID: w.row.ID, Score: protocol.ScoreOf(w.row)}}
			w.row.State = task.Cancelled
			w.row.Version++
		}, Drift{Extra: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &fakeWorld{looked: func() {}, row: task.Task{ID: task.ID{7}, Version: 1, RunAt: time.Now().Add(time.Hour)}}
				c.prepare(w)
				got, err := checkDrift(t.Context(), w, w, protocol.Layout{Shards: 1, ShardsEver: 1, Horizon: c.horizon, Partial: c.horizon > 0})
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%v, (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

func (w *fakeWorld) move() {
	w.row.Version++
	w.row.RunAt = w.row.RunAt.Add(time.Minute)
}

// onLook runs fn just before the index is read for the nth time.
func (w *fakeWorld) onLook(nth int, fn func()) func() {
	n := 0
	return func() {
		if n++; n == nth {
			fn()
		}
	}
}

// crowd has many rows and an empty index.
type crowd struct {
	fakeWorld
	n      int
	unread map[task.ID]bool // rows that were not read again
	peak   int
}

func (w *crowd) at(i int) task.Task {
	row := task.Task{Version: 1, RunAt: w.row.RunAt}
	binary.BigEndian.PutUint64(row.ID[:], uint64(i))
	return row
}

func (w *crowd) Pending(_ context.Context, _, _ time.Time, after protocol.Cursor, limit int) (rows []task.Task, err error) {
	from := binary.BigEndian.Uint64(after.ID[:]) + 1
	for i := from; i <= uint64(w.n) && len(rows) < limit; i++ {
		rows = append(rows, w.at(int(i)))
		w.unread[rows[len(rows)-1].ID] = true
	}
	w.peak = max(w.peak, len(w.unread))
	return rows, nil
}

func (w *crowd) Get(_ context.Context, _ sqlx.QueryerContext, ids []task.ID) (rows []task.Task, err error) {
	for _, id := range ids {
		delete(w.unread, id)
		rows = append(rows, w.at(int(binary.BigEndian.Uint64(id[:]))))
	}
	return rows, nil
}

// Of millions of differences, as when Redis has lost its memory, few are kept at a time.
func TestDriftOfAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &crowd{n: 2*maxDifferences + driftPage/2, unread: map[task.ID]bool{}}
		w.looked, w.row.RunAt = func() {}, time.Now().Add(time.Hour)
		got, err := checkDrift(t.Context(), w, w, protocol.Layout{Shards: 1, ShardsEver: 1})
		if diff := cmp.Diff(Drift{Missing: int64(w.n)}, got); diff != "" || err != nil {
			t.Errorf("%v, (-want +got):\n%s", err, diff)
		}
		if w.peak > maxDifferences {
			t.Errorf("%d rows were kept, want %d at most", w.peak, maxDifferences)
		}
	})
}
