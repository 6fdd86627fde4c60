package presence_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
	"github.com/duetime/duetime/pkg/task"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.OpenSQLite(filepath.Join(t.TempDir(), "tasks.db"))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A change of leadership is reported at once, with what runs; a process that has stopped is not listed, and its run stays known.
func TestProcessReportsItself(t *testing.T) {
	t.Parallel()
	s := open(t)
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, "test", 1))
	running := protocol.Call{Kind: "mail", Task: task.NewID(), Tasks: 3, SinceMs: 1, LimitMs: 1000}
	r := presence.Start(presence.Config{
		ID: "run", Role: "event", Calls: func() []protocol.Call { return []protocol.Call{running} }, Logger: slog.New(slog.DiscardHandler),
	}, s)
	alive := func() []store.Process {
		t.Helper()
		all, err := s.Processes(t.Context())
		pipelinetest.Must(t, err)
		return all
	}
	for _, epoch := range []int64{0, 7, 0} {
		r.Lead(epoch)
		pipelinetest.Await(t, "the report", func() bool {
			all := alive()
			return len(all) == 1 && all[0].ID == "run" && all[0].Role == "event" && slices.Equal(all[0].Detail.Calls, []protocol.Call{running}) && all[0].Host != "" && all[0].Detail.PID > 0 && all[0].Detail.Epoch == epoch
		})
	}
	r.Stop()
	if all := alive(); len(all) != 0 {
		t.Errorf("after the stop: %+v", all)
	}
	if listed, err := s.ListProcesses(t.Context()); err != nil || len(listed) != 0 {
		t.Errorf("after the stop: %+v, %v", listed, err)
	}
	if runs, _, err := s.Runs(t.Context()); err != nil || len(runs) != 1 || runs[0].Role != "event" {
		t.Errorf("runs after the stop: %+v, %v", runs, err)
	}
}

// A process whose reports fail goes on trying, and stops all the same.
func TestProcessThatCannotReport(t *testing.T) {
	t.Parallel()
	s := open(t) // without tables
	r := presence.Start(presence.Config{Role: "api", Logger: slog.New(slog.DiscardHandler)}, s)
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, "test", 1))
	pipelinetest.Await(t, "the report", func() bool {
		all, err := s.Processes(t.Context())
		return err == nil && len(all) == 1
	})
	pipelinetest.Must(t, s.Close())
	r.Stop()
}
