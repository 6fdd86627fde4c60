package console

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// What operators did is found among lines of services and workers, by pages, and by actor, event and time.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	ann := w.serving("ann@host")
	moved := w.pending()
	_, err := ann.Shift(ctx, moved.ID, time.Minute)
	pipelinetest.Must(t, err)
	_, err = ann.Pause(ctx, "mails")
	pipelinetest.Must(t, err)
	_, err = ann.As("bob@host").Cancel(ctx, moved.ID, 0)
	pipelinetest.Must(t, err)
	now, err := w.store.Now(ctx, nil)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, w.store.Record(ctx, nil, []protocol.Event{
		{At: now, Task: moved.ID, Name: task.EventFailed, Actor: protocol.ActorWorker},
		{At: now, Task: moved.ID, Name: protocol.EventMoved, Actor: protocol.ActorService},
	}))
	audit := func(name string, q AuditQuery, want ...string) {
		t.Helper()
		var got []string
		for pages := 0; ; pages++ {
			page, err := ann.Audit(ctx, q)
			pipelinetest.Must(t, err)
			for _, l := range page.Lines {
				about := "no task"
				if l.Task != nil && *l.Task == moved.ID {
					about = "the task"
				}
				got = append(got, l.Actor+" "+l.Event+" "+about)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		diff(t, name, want, got)
	}
	cancelled, paused, shifted := "bob@host cancelled the task", "ann@host paused no task", "ann@host moved the task"
	for limit := range 4 {
		audit(fmt.Sprintf("all, limit %d", limit), AuditQuery{Limit: limit}, cancelled, paused, shifted)
	}
	audit("ann's", AuditQuery{Actor: "ann@host", Limit: 1}, paused, shifted)
	audit("moved", AuditQuery{Event: protocol.EventMoved}, shifted)
	audit("from", AuditQuery{From: now.Add(time.Hour)})
	audit("to", AuditQuery{To: now.Add(-time.Hour)})
	audit("a span", AuditQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}, cancelled, paused, shifted)
	page, err := ann.Audit(ctx, AuditQuery{Event: "none"})
	if err != nil || page.Lines == nil || page.Next != "" || page.Cut {
		t.Errorf("no line: %+v, %v", page, err)
	}
	for _, limit := range []int{-1, maxAudit + 1} {
		_, err := ann.Audit(ctx, AuditQuery{Limit: limit})
		if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != "limit" {
			t.Errorf("limit %d: got %v", limit, err)
		}
	}
	for _, place := range []string{"nowhere", "1_", "_1", "1_x"} {
		if _, err := ann.Audit(ctx, AuditQuery{After: place}); err == nil {
			t.Errorf("the place %q was taken", place)
		}
	}
}

// A rare event is looked for among 5,000 lines a call; the next call goes on behind them.
func TestAuditOfARareEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, c := t.Context(), w.console()
	now, err := w.store.Now(ctx, nil)
	pipelinetest.Must(t, err)
	lines := []protocol.Event{{At: now, Name: protocol.EventPaused, Actor: "ann@host", Detail: "mails"}}
	for range 6000 {
		lines = append(lines, protocol.Event{At: now, Task: task.NewID(), Name: protocol.EventCancelled, Actor: "ann@host"})
	}
	pipelinetest.Must(t, w.store.Record(ctx, nil, lines))
	page, err := c.Audit(ctx, AuditQuery{Event: protocol.EventPaused})
	if err != nil || len(page.Lines) != 0 || page.Next == "" {
		t.Errorf("the first page: %+v, %v; want a next one", page, err)
	}
	page, err = c.Audit(ctx, AuditQuery{Event: protocol.EventPaused, After: page.Next})
	pipelinetest.Must(t, err)
	diff(t, "the next page", AuditPage{Lines: []AuditLine{{now.UnixMilli(), protocol.EventPaused, "ann@host", "mails", nil}}}, page)
}
