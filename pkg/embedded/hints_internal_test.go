package embedded

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

func opened(t *testing.T) *Pipeline {
	t.Helper()
	p, err := OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "a.db"), Config{Logger: slog.New(slog.DiscardHandler)})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	return p
}

// crowd inserts tasks that have been due since 1970, a millisecond after one another.
func crowd(t *testing.T, p *Pipeline, queue string, tasks int) {
	t.Helper()
	_, err := p.DB().ExecContext(t.Context(), `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT randomblob(16), 'far', 'bob', ?, 0, 1000 + i, 1000 + i, '{}', 1, 1 FROM n`, tasks, queue)
	pipelinetest.Must(t, err)
}

// brings is what a worker of the queue default gets at once.
func (h *hints) brings(t *testing.T) (ids []task.ID) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	pipelinetest.Must(t, h.Consume(ctx, "default", func(ctx context.Context, s protocol.Session) error {
		ds, err := s.Fetch(ctx)
		for _, d := range ds {
			ids = append(ids, d.Hint.ID)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	}))
	return ids
}

// A task comes once, by a pass or by its commit, and once more if it is still pending long afterwards.
func TestHintsComeOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := opened(t)
	h, ring := p.hints, task.NewKind[struct{}]("ring")
	made := func(in time.Duration) task.ID {
		row, err := p.Schedule(ctx, ring.New("ann", struct{}{}, task.In(in)))
		pipelinetest.Must(t, err)
		return row.ID
	}
	pass := func() {
		_, err := h.pass(ctx)
		pipelinetest.Must(t, err)
	}
	want := func(what string, want ...task.ID) {
		t.Helper()
		var got []task.ID
		pipelinetest.Await(t, what, func() bool { got = append(got, h.brings(t)...); return len(got) >= len(want) })
		for _, ids := range [][]task.ID{got, want} {
			slices.SortFunc(ids, func(a, b task.ID) int { return bytes.Compare(a[:], b[:]) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	late, soon := made(0), made(readAhead/2)
	made(time.Hour)
	want("nothing before the first pass")
	pass()
	want("what comes due, and what is late", soon, late)
	pass()
	want("nothing twice")
	want("a task committed for now, without a pass", made(0))
	made(time.Hour)
	want("nothing far off")

	h.mu.Lock()
	h.brought[version{late, 1}] = time.Now().Add(-2 * repeatAfter)
	h.mu.Unlock()
	pass()
	want("a task that is still pending", late)
}

// What another process schedules for now need not wait until a crowd that is nobody's here was looked through.
func TestHintsComeInSpiteOfACrowd(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := opened(t)
	crowd(t, p, "elsewhere", 50_000)
	var late task.ID
	for range 5 {
		_, err := p.hints.pass(ctx)
		pipelinetest.Must(t, err)
		if late.IsZero() {
			late = task.NewID()
			_, err := p.DB().ExecContext(ctx, `INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at)
				VALUES (?, 'ring', 'ann', 'default', 0, ?2, ?2, '{}', ?2, ?2)`, late[:], time.Now().UnixMilli())
			pipelinetest.Must(t, err)
		}
	}
	if got := p.hints.brings(t); !slices.Equal(got, []task.ID{late}) {
		t.Errorf("got %v, want %v", got, late)
	}
}

// A pass doesn't read past late tasks for which there is no room.
func TestLateTasksWaitForRoom(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := opened(t)
	crowd(t, p, "default", maxWaiting+2*readPage)
	h := p.hints
	passes := func() {
		for more := true; more; {
			res, err := h.pass(ctx)
			pipelinetest.Must(t, err)
			more = res.More
		}
	}
	fetched := func() (n int) {
		for got := h.brings(t); len(got) > 0; got = h.brings(t) {
			n += len(got)
		}
		return n
	}
	passes()
	if want := time.UnixMilli(1000 + maxWaiting); !h.late.At.Equal(want) {
		t.Errorf("the passes have come to %v, want %v", h.late.At, want)
	}
	first := fetched()
	passes()
	if next := fetched(); first != maxWaiting || next != 2*readPage {
		t.Errorf("%d hints came, and %d once there was room; want %d and %d", first, next, maxWaiting, 2*readPage)
	}
}
