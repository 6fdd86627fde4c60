package console_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

// Lists have what has ended wherever its row stands, each task once, on whatever pages.
func TestListsOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rows := worldtest.NewStore(t, "duetime", store.Options{})
	p, err := embedded.OpenMySQL(ctx, rows.DSN, embedded.Config{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	end := func(state task.State, at time.Time) task.ID {
		made, err := p.Schedule(ctx, task.NewKind[int]("meal").New("ada", 1, task.At(at)))
		pipelinetest.Must(t, err)
		rows.Exec("UPDATE duetime_tasks SET state = ?, version = 2, due_at = ?, run_at = ?, finished_at = ?, updated_at = ? WHERE id = ?",
			int(state), at.UnixMilli(), at.UnixMilli(), at.UnixMilli()+1, at.UnixMilli()+1, made.ID[:])
		return made.ID
	}
	base := time.UnixMilli(1_800_000_000_000)
	var done []task.ID
	for i := range 5 {
		done = append(done, end(task.Done, base.Add(time.Duration(i)*time.Minute)))
	}
	cancelled := end(task.Cancelled, base)
	listed := append(slices.Clone(done[3:]), done[:3]...) // those that have moved come last
	_, _, err = rows.Archive(ctx, base.Add(150*time.Second), 100)
	pipelinetest.Must(t, err)
	if n := rows.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 2 {
		t.Fatalf("%d rows stand among the pending ones, want the last two", n)
	}
	all := func(f console.Filter) (ids []task.ID) {
		t.Helper()
		for {
			page, err := p.Console().ListBounded(ctx, f)
			pipelinetest.Must(t, err)
			for _, found := range page.Tasks {
				ids = append(ids, found.ID)
			}
			if f.After = page.Next; f.After == "" {
				return ids
			}
		}
	}
	for limit := 1; limit <= 6; limit++ {
		f := console.Filter{State: new(task.Done), Limit: limit}
		if got := all(f); !slices.Equal(got, listed) {
			t.Errorf("pages of %d: %v, want %v", limit, got, listed)
		}
		f.RunAfter, f.RunBefore = base.Add(time.Minute), base.Add(4*time.Minute)
		if got := all(f); !slices.Equal(got, []task.ID{done[3], done[1], done[2]}) {
			t.Errorf("pages of %d between two run times: %v, want the fourth, the second and the third of %v", limit, got, done)
		}
		whole, err := p.Console().ListBounded(ctx, console.Filter{State: new(task.Done)})
		pipelinetest.Must(t, err)
		if limit < len(done) {
			f := console.Filter{State: new(task.Done), After: whole.Place(limit)}
			if got := all(f); !slices.Equal(got, listed[limit:]) {
				t.Errorf("behind the first %d: %v, want %v", limit, got, listed[limit:])
			}
		}
	}
	if got := all(console.Filter{State: new(task.Cancelled)}); !slices.Equal(got, []task.ID{cancelled}) {
		t.Errorf("cancelled: %v", got)
	}
	if got := all(console.Filter{Owner: "ada", Limit: 2}); len(got) != 6 {
		t.Errorf("of the owner: %d tasks, want all 6", len(got))
	}
	if _, err := p.Console().ListBounded(ctx, console.Filter{After: "e1_" + cancelled.String()}); err == nil {
		t.Error("a place among ended tasks is one among the pending ones")
	}
	if life, err := p.Console().Task(ctx, done[0]); err != nil || life.State != task.Done {
		t.Errorf("the page of one that has moved: %+v, %v", life, err)
	}
}
