package presence_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite" // for OpenSQLite

	"github.com/duetime/duetime/internal/presence"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/migrations"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.OpenSQLite(filepath.Join(t.TempDir(), "tasks.db"))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A change of leadership is reported at once, and a clean stop leaves nothing behind.
func TestProcessReportsItself(t *testing.T) {
	t.Parallel()
	s := open(t)
	pipelinetest.Must(t, s.Migrate(t.Context(), migrations.Files, "test", 1))
	r := presence.Start(presence.Config{Role: "event", Logger: slog.New(slog.DiscardHandler)}, s)
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
			return len(all) == 1 && all[0].Role == "event" && all[0].Host != "" && all[0].Detail.PID > 0 && all[0].Detail.Epoch == epoch
		})
	}
	r.Stop()
	if all := alive(); len(all) != 0 {
		t.Errorf("after the stop: %+v", all)
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
