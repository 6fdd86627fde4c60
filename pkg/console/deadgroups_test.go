package console

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

func TestAlikeErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"pet 42 is asleep, and 7 others": "pet # is asleep, and # others",
		"dial tcp 10.0.0.17:6379: connect: refused":                                             "dial tcp #: connect: refused",
		"task 0192f0c1-7a50-7cc2-abcd-0a6b3f1c2d4e of pet-0192f0c1-7a50-7cc2-9d3e-0a6b3f1c2d4e": "task # of pet-#",
		"no order 01HXYZ7K3Q9V2M5T8N4B6C1D0F":                                                   "no order #",
		"hash 00c0ffee differs from deadbeef":                                                   "hash # differs from deadbeef",
		"after 2026-11-27T02:46:16.123Z: took 1.5s":                                             "after #T#Z: took #s",
		"http2: stream 5 of pet_7 closed":                                                       "http#: stream # of pet_# closed",
		"größe 12 überschritten":                                                                "größe # überschritten",
		"almost 0192f0c1-7a50-7cc2-9d3e-0a6b3f1c2d4":                                            "almost #a#cc#d#e-#",
		"#1 and -5": "## and -#",
	} {
		if got := alikeError(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := alikeError(want); got != want {
			t.Errorf("%q is changed once more, to %q", want, got)
		}
	}
}

// died makes a dead task.
func (w *world) died(cause string, after time.Duration) task.Task {
	w.t.Helper()
	row := w.pending()
	row = transition.Discard(row, errors.New(cause), row.UpdatedAt.Add(after))
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error { return worldtest.Save(ctx, w.store.Store, tx, row) })
	return row
}

func TestDeadGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, c := t.Context(), w.console()
	if groups, cut, err := c.DeadGroups(ctx, DeadQuery{Limit: 0}); err != nil || cut || groups == nil || len(groups) > 0 {
		t.Errorf("without dead tasks: %v, %v, %v", groups, cut, err)
	}
	first, last, other := w.died("no pet 7", 0), w.died("no pet 12", time.Minute), w.died("no food", time.Hour)
	w.died("no pet 9", time.Second)
	w.pending()
	want := []DeadGroup{
		{"meal", "no pet #", 3, first.FinishedAt.UnixMilli(), last.FinishedAt.UnixMilli(), last.ID},
		{"meal", "no food", 1, other.FinishedAt.UnixMilli(), other.FinishedAt.UnixMilli(), other.ID},
	}
	for limit := range 3 {
		groups, cut, err := c.DeadGroups(ctx, DeadQuery{Limit: limit})
		pipelinetest.Must(t, err)
		if limit == 1 {
			diff(t, "the largest group", want[:1], groups)
		} else {
			diff(t, "groups", want, groups)
		}
		if cut != (limit == 1) {
			t.Errorf("limit %d: cut %v", limit, cut)
		}
	}
	for _, limit := range []int{-1, maxDeadGroups + 1} {
		_, _, err := c.DeadGroups(ctx, DeadQuery{Limit: limit})
		if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != "limit" {
			t.Errorf("limit %d: got %v", limit, err)
		}
	}
}

// Equal texts of two kinds are two groups; of groups with as many tasks, the one that died last comes first.
func TestDeadGroupsAreSorted(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_000)
	a, b := task.NewID(), task.NewID()
	diff(t, "groups", []DeadGroup{
		{"meal", "x", 1, at.UnixMilli() + 1, at.UnixMilli() + 1, b}, {"mail", "x", 1, at.UnixMilli(), at.UnixMilli(), a},
	}, deadGroups([]views.DeadTask{
		{ID: a, Kind: "mail", Error: "x", Died: at}, {ID: b, Kind: "meal", Error: "x", Died: at.Add(time.Millisecond)},
	}))
}
