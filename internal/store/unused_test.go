package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// leavesRows writes all that outlasts a queue.
func leavesRows(t *testing.T, s *store.Store, queue string, at time.Time) {
	t.Helper()
	must(t, s.SetRate(t.Context(), s.DB(), queue, &task.Rate{Calls: 1, Per: time.Second}))
	value[bool](t)(s.Pause(t.Context(), s.DB(), queue, at, time.Time{}))
	value[[]int](t)(s.TakeOver(t.Context(), queue, "a", []int{0, 1}))
	must(t, s.HandOver(t.Context(), queue, "a", []int{0}, at))
}

// leftBy counts what is left under a queue's name, but for its mark.
func leftBy(t *testing.T, s *store.Store, queue string) (n int) {
	t.Helper()
	must(t, s.DB().Get(&n, "SELECT (SELECT COUNT(*) FROM duetime_limits WHERE queue = ?) + (SELECT COUNT(*) FROM duetime_handovers WHERE queue = ?) +"+
		" (SELECT COUNT(*) FROM duetime_requests WHERE name = ?)", queue, queue, "pause:"+queue))
	return n
}

// What is left of a queue is forgotten once nobody has used the queue for long, and not while anybody does, or has written since.
func purgeQueues(t *testing.T, s *store.Store) {
	ctx := t.Context()
	now := value[time.Time](t)(s.Now(ctx, nil))
	all := []string{"gone", "ours", "configured", "run", "added", "waiting", "limited", "paused", "left", "ours-later"}
	for _, queue := range all {
		leavesRows(t, s, queue, now)
	}
	must(t, s.ReportProcess(ctx, store.Process{ID: "event", Role: "event", Detail: store.ProcessDetail{Configured: []string{"configured"}}}, 0))
	must(t, s.ReportProcess(ctx, store.Process{ID: "worker", Role: "worker", Detail: store.ProcessDetail{Queues: []string{"run"}}}, 0))
	value[bool](t)(s.AddQueue(ctx, s.DB(), "added", now))
	waiting := newTask(t, "ann", time.Hour)
	waiting.Queue = "waiting"
	inserted(t, s, waiting)
	forgets := func(after time.Duration, ours string, want ...string) {
		t.Helper()
		got := value[[]string](t)(s.PurgeQueues(ctx, strings.Fields(ours), now.Add(after), now.Add(after-time.Hour)))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("after %v: forgotten %v, want %v", after, got, want)
		}
	}
	forgets(0, "ours")
	forgets(30*time.Minute, "ours")
	must(t, s.SetRate(ctx, s.DB(), "limited", nil))
	value[bool](t)(s.Resume(ctx, s.DB(), "paused"))
	value[bool](t)(s.Pause(ctx, s.DB(), "paused", now.Add(time.Minute), time.Time{}))
	must(t, s.HandOver(ctx, "left", "a", []int{1}, now.Add(time.Minute)))
	forgets(61*time.Minute, "ours ours-later", "gone")
	for _, queue := range all {
		want := 4
		if queue == "gone" {
			want = 0
		}
		if n := leftBy(t, s, queue); n != want {
			t.Errorf("%d rows of queue %s are left, want %d", n, queue, want)
		}
	}

	// What was used or written meanwhile has its whole time again, from the next call on.
	forgets(62*time.Minute, "ours")
	forgets(121*time.Minute, "ours")
	must(t, exec(s.DB(), "DELETE FROM duetime_tasks WHERE queue = 'waiting'"))
	forgets(123*time.Minute, "ours", "left", "limited", "ours-later", "paused", "waiting")
	var marks int
	if must(t, s.DB().Get(&marks, "SELECT COUNT(*) FROM duetime_requests WHERE name LIKE 'unused:%'")); marks != 0 {
		t.Errorf("%d marks are left", marks)
	}
}

// A daemon that stood still between its look and its changes forgets nothing that was written since, or that another daemon has marked
// anew.
func purgeQueuesLate(t *testing.T, s *store.Store) {
	ctx := t.Context()
	now := value[time.Time](t)(s.Now(ctx, nil))
	for queue, meanwhile := range map[string]func(){
		"limited": func() { must(t, s.SetConcurrency(ctx, s.DB(), "limited", new(int))) },
		"used":    func() { value[[]string](t)(s.PurgeQueues(ctx, []string{"used"}, now, now)) },
	} {
		leavesRows(t, s, queue, now)
		value[[]string](t)(s.PurgeQueues(ctx, nil, now, now))
		read := value[map[string]store.LeftQueue](t)(s.LeftQueues(ctx))[queue]
		meanwhile()
		if purged := value[bool](t)(s.PurgeQueue(ctx, queue, read)); purged || leftBy(t, s, queue) != 4 {
			t.Errorf("queue %s: purged %v, %d rows are left", queue, purged, leftBy(t, s, queue))
		}
	}
}
