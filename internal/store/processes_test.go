package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duetime/duetime/internal/store"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *store.Store) {
		event := store.Process{ID: "e", Role: "event", Host: "one", Version: "v1", Detail: store.ProcessDetail{PID: 7, Epoch: 3}}
		worker := store.Process{ID: "w", Role: "worker", Host: "two", Version: "v1", Detail: store.ProcessDetail{PID: 8, Queues: []string{"a", "b"}}}
		report := func(p store.Process, uptime time.Duration) {
			t.Helper()
			must(t, s.ReportProcess(t.Context(), p, uptime))
		}
		want := func(when string, want ...store.Process) {
			t.Helper()
			got := value[[]store.Process](t)(s.Processes(t.Context()))
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Process{}, "Started", "Seen"), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("processes %s (-want +got):\n%s", when, d)
			}
		}
		seen := func(id string, ago time.Duration) {
			t.Helper()
			must(t, exec(s.DB(), "UPDATE duetime_processes SET seen_at = seen_at - ? WHERE id = ?", ago.Milliseconds(), id))
		}
		want("without any")
		report(worker, time.Minute)
		report(event, 0)
		want("that report", event, worker)
		got := value[[]store.Process](t)(s.Processes(t.Context()))[1]
		if up := got.Seen.Sub(got.Started); up != time.Minute {
			t.Errorf("the worker has run for %v, want a minute", up)
		}
		event.Detail.Epoch = 0
		report(event, time.Second)
		want("after the term", event, worker)
		seen("e", 2*store.ProcessAlive)
		want("of which one is silent", worker)
		seen("w", -2*store.ProcessAlive)
		want("from before the clock was set back")
		report(worker, 2*time.Minute)
		want("of which one reports", worker)
		must(t, exec(s.DB(), "UPDATE duetime_processes SET detail = 'x' WHERE id = 'w'"))
		want("with a bad row", store.Process{ID: "w", Role: "worker", Host: "two", Version: "v1"})
		seen("e", 2*time.Hour)
		must(t, s.ForgetCrashed(t.Context()))
		must(t, s.ForgetProcess(t.Context(), "w"))
		var left int
		must(t, s.DB().Get(&left, "SELECT COUNT(*) FROM duetime_processes"))
		if left != 0 {
			t.Errorf("%d rows are left of processes that crashed long ago, or ended", left)
		}
	})
}
