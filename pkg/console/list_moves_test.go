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

// A list that is read page by page lacks no task that was done before its first page, whatever moves to the other table meanwhile. One that moves
// may come twice.
func TestListWhileRowsMove(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rows := worldtest.NewStore(t, "duetime", store.Options{})
	p, err := embedded.OpenMySQL(ctx, rows.DSN, embedded.Config{})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	base := time.UnixMilli(1_800_000_000_000)
	var done []task.ID
	for i := range 6 {
		at := base.Add(time.Duration(i) * time.Minute)
		made, err := p.Schedule(ctx, task.NewKind[int]("meal").New("ada", 1, task.At(at)))
		pipelinetest.Must(t, err)
		rows.Exec("UPDATE duetime_tasks SET state = 1, version = 2, finished_at = ?, updated_at = ? WHERE id = ?",
			at.UnixMilli()+1, at.UnixMilli()+1, made.ID[:])
		done = append(done, made.ID)
	}
	var got []task.ID
	f := console.Filter{State: new(task.Done), Limit: 1}
	for minute := time.Duration(1); ; minute += 2 { // the daemon moves two tasks between two pages
		_, _, err = rows.Archive(ctx, base.Add(minute*time.Minute), 100)
		pipelinetest.Must(t, err)
		page, err := p.Console().ListBounded(ctx, f)
		pipelinetest.Must(t, err)
		for _, found := range page.Tasks {
			got = append(got, found.ID)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	slices.SortFunc(got, task.ID.Compare)
	got = slices.Compact(got)
	slices.SortFunc(done, task.ID.Compare)
	if !slices.Equal(got, done) {
		t.Errorf("%d tasks are listed, want each of %d:\n%v\n%v", len(got), len(done), got, done)
	}
}
