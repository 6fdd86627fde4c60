package verify_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/verify"
	"github.com/duetime/duetime/pkg/task"
)

// world is one row, and an index of it that lacks every entry or follows each move of the row.
type world struct {
	row     task.Task
	indexed bool
	entries []task.Entry // of the due set
	looked  func()       // after the row was read, before the index is
}

func (w *world) Now(context.Context, sqlx.QueryerContext) (time.Time, error) { return time.Now(), nil }

func (w *world) Get(_ context.Context, _ sqlx.QueryerContext, ids []task.ID) ([]task.Task, error) {
	if !slices.Contains(ids, w.row.ID) {
		return nil, nil
	}
	return []task.Task{w.row}, nil
}

func (w *world) Pending(context.Context, time.Time, time.Time, task.Cursor, int) ([]task.Task, error) {
	if w.row.State != task.Pending {
		return nil, nil
	}
	return []task.Task{w.row}, nil
}

func (w *world) Standings(_ context.Context, tasks []task.Task) ([]task.Standing, error) {
	w.looked()
	out := make([]task.Standing, len(tasks))
	for i := range tasks {
		out[i] = task.Standing{Due: task.NoScore, Owner: task.NoScore}
		if w.indexed {
			out[i] = task.Standing{Due: task.ScoreOf(w.row), Owner: task.ScoreOf(w.row)}
		}
		if len(w.entries) > 0 {
			out[i].Due = w.entries[0].Score
		}
	}
	return out, nil
}

func (w *world) ScanDue(context.Context, int, task.ScanCursor, int64) ([]task.Entry, task.ScanCursor, error) {
	return w.entries, task.ScanCursor{}, nil
}

func (w *world) ScanOwners(context.Context, int, task.ScanCursor, int64) ([]task.Entry, task.ScanCursor, error) {
	return nil, task.ScanCursor{}, nil
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world)
		want    verify.Drift
	}{
		"in order":      {func(w *world) { w.indexed = true }, verify.Drift{}},
		"missing":       {func(*world) {}, verify.Drift{Missing: 1}},
		"soon repaired": {func(w *world) { w.looked = w.onLook(2, func() { w.indexed = true }) }, verify.Drift{}},
		// The row and its entry move together, between the read of the one and the read of the other.
		"moved at the first look": {func(w *world) { w.indexed, w.looked = true, w.onLook(1, w.move) }, verify.Drift{}},
		"moved at the second look": {func(w *world) {
			w.looked = w.onLook(2, func() { w.indexed = true; w.move() })
		}, verify.Drift{}},
		"ended at the second look": {func(w *world) {
			w.looked = w.onLook(2, func() { w.row.State = task.Done })
		}, verify.Drift{}},
		"left in another queue": {func(w *world) {
			w.indexed = true
			w.entries = []task.Entry{{ID: w.row.ID, Score: task.ScoreOf(w.row), Queue: "before"}}
		}, verify.Drift{Extra: 1}},
		"ghost": {func(w *world) {
			w.entries = []task.Entry{{ID: w.row.ID, Score: task.ScoreOf(w.row)}}
			w.row.State = task.Cancelled
			w.row.Version++
		}, verify.Drift{Extra: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{looked: func() {}, row: task.Task{ID: task.ID{7}, Version: 1, RunAt: time.Now().Add(time.Hour)}}
				c.prepare(w)
				got, err := verify.Check(t.Context(), w, w, 1)
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%v, (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

func (w *world) move() {
	w.row.Version++
	w.row.RunAt = w.row.RunAt.Add(time.Minute)
}

// onLook runs fn just before the index is read for the nth time.
func (w *world) onLook(nth int, fn func()) func() {
	n := 0
	return func() {
		if n++; n == nth {
			fn()
		}
	}
}
