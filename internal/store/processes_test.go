package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duetime/duetime/internal/protocol"
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
		listed := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, p := range value[[]store.Process](t)(s.ListProcesses(t.Context())) {
				got = append(got, fmt.Sprintf("%s %t", p.ID, p.Silent))
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("the list %s (-want +got):\n%s", when, d)
			}
		}
		listed("with a silent one", "e true", "w false")
		seen("w", -2*store.ProcessAlive)
		want("from before the clock was set back")
		report(worker, 2*time.Minute)
		want("of which one reports", worker)
		must(t, exec(s.DB(), "UPDATE duetime_processes SET detail = 'x' WHERE id = 'w'"))
		want("with a bad row", store.Process{ID: "w", Role: "worker", Host: "two", Version: "v1"})
		must(t, s.EndProcess(t.Context(), worker))
		listed("after the worker's end", "e true")
		seen("e", time.Hour)
		listed("after an hour of silence")
		runs, _, err := s.Runs(t.Context())
		must(t, err)
		if len(runs) != 2 || runs[0].Role != "worker" || runs[1].Version != "v1" || runs[1].Started.Before(runs[0].Started) {
			t.Errorf("runs of ended and silent processes: %+v", runs)
		}
		seen("e", 7*24*time.Hour)
		must(t, s.ForgetProcesses(t.Context()))
		var left []string
		must(t, s.DB().Select(&left, "SELECT id FROM duetime_processes"))
		if d := cmp.Diff([]string{"w"}, left); d != "" {
			t.Errorf("after a week (-want +got):\n%s", d)
		}
	})
}

func TestStatesOfProcesses(t *testing.T) {
	t.Parallel()
	seen := time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct {
		ran    time.Duration
		silent bool
		want   string
	}{
		"at its limit":            {11 * time.Second, false, store.StateAlive},
		"beyond its limit":        {12 * time.Second, false, store.StateStuck},
		"silent with what it ran": {12 * time.Second, true, store.StateSilent},
	} {
		p := store.Process{Seen: seen, Silent: c.silent, Detail: store.ProcessDetail{Calls: []protocol.Call{
			{Kind: "meal", SinceMs: seen.UnixMilli(), LimitMs: 10_000}, {Kind: "mail", SinceMs: seen.Add(-c.ran).UnixMilli(), LimitMs: 10_000},
		}}}
		if got := p.State(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
