package main_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// recurring is a recurrence as the tool writes it.
type recurring struct {
	Owner, Name, State, Note, Timetable string

	Policy  recur.Policy `json:"policy"`
	Newest  *task.ID     `json:"newest_task_id"`
	DueAtMs int64        `json:"due_at_ms"`
	Made    int64        `json:"made"`
	NextMs  []int64      `json:"next_ms"`

	NewestDueMs int64 `json:"newest_due_ms"`

	History []struct{ Event, Actor, Detail string }
}

// leaveBehind ends the recurrence's task by SQL, as long ago as a daemon would have met it, has verify tell so, and undoes it.
func (d deployment) leaveBehind(t *testing.T, r recurring) {
	t.Helper()
	set := func(dueMs int64, state int) {
		_, err := d.db.Exec(`UPDATE duetime_recurrences SET due_at = ? WHERE newest = ?`, dueMs, r.Newest[:])
		pipelinetest.Must(t, err)
		_, err = d.db.Exec(`UPDATE duetime_tasks SET state = ?, finished_at = ? * created_at, updated_at = created_at - 90000 WHERE id = ?`, state, state, r.Newest[:])
		pipelinetest.Must(t, err)
	}
	set(time.Now().Add(-90*time.Second).UnixMilli(), 1)
	if got := decode[map[string]*int](t, d.run(t, nil, "verify", "--json")); got["left_behind"] == nil || *got["left_behind"] != 1 {
		t.Errorf("verify says %v, want one recurrence left behind", got["left_behind"])
	}
	set(r.DueAtMs, 0)
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	monthly := recur.Cron("0 8 1 * *", "Asia/Shanghai")
	for owner, names := range map[string][]string{"ann": {"report", "reward"}, "bob": {"reward"}} {
		for _, name := range names {
			_, err := d.client.Recur(t.Context(), name, monthly, remind.Recurring(owner, reminder{"hello"}), recur.Policy{Count: 3})
			pipelinetest.Must(t, err)
		}
	}
	listed := func(args ...string) (places []string) {
		for _, r := range decode[[]recurring](t, d.wantCode(t, 0, append([]string{"schedule", "list", "--json"}, args...)...)) {
			places = append(places, r.Owner+"/"+r.Name+" "+r.State)
		}
		return places
	}
	get := func(owner, name string) recurring {
		return decode[recurring](t, d.wantCode(t, 0, "schedule", "get", owner, name, "--json"))
	}
	wantList := func(got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("listed are %v, want %v", got, want)
		}
	}
	wantList(listed(), "ann/report active", "ann/reward active", "bob/reward active")
	wantList(listed("--owner", "ann", "--kind", remind.Name()), "ann/report active", "ann/reward active")
	page := d.wantCode(t, 0, "schedule", "list", "--limit", "2")
	if _, after, _ := strings.Cut(page.err, "--after "); after == "" || !regexp.MustCompile(`^[\w-]+$`).MatchString(strings.TrimSpace(after)) {
		t.Errorf("no further page was named as a shell takes it: %q", page.err)
	} else {
		wantList(listed("--after", strings.TrimSpace(after)), "bob/reward active")
	}

	first := get("ann", "reward")
	ticks := monthly.Ticks(time.Now(), 3)
	if first.DueAtMs != ticks[0].UnixMilli() || len(first.NextMs) != 2 || first.NextMs[0] != ticks[1].UnixMilli() || first.Policy.Count != 3 {
		t.Errorf("got %+v, want the ticks %v", first, ticks)
	}
	// The client writes its line behind its caller's back.
	pipelinetest.Await(t, "the line of the definition", func() bool { return len(get("ann", "reward").History) == 1 })
	d.wantCode(t, 0, "schedule", "pause", "ann", "reward", "--note", "on holiday")
	wantList(listed("--state", "paused"), "ann/reward paused")
	if r := get("ann", "reward"); r.Note != "on holiday" || r.Newest != nil {
		t.Errorf("paused: %+v", r)
	}
	extra := decode[shown](t, d.wantCode(t, 0, "schedule", "run", "ann", "reward", "--json"))
	if got := decode[lived](t, d.wantCode(t, 0, "task", "get", extra.ID, "--json")); got.State != "pending" {
		t.Errorf("the task that was asked for is %s", got.State)
	}
	d.wantCode(t, 0, "schedule", "resume", "ann", "reward")
	r := get("ann", "reward")
	if r.DueAtMs != first.DueAtMs || r.Made != 1 {
		t.Errorf("resumed: %+v, want the first tick", r)
	}
	var events []string
	for _, h := range r.History {
		events = append(events, h.Event)
		if operated := h.Event != "defined"; operated != strings.Contains(h.Actor, "@") {
			t.Errorf("%s was recorded as of %s", h.Event, h.Actor)
		}
	}
	wantList(events, "defined", "paused", "extra", "resumed")

	d.wantCode(t, 0, "task", "cancel", r.Newest.String()) // the next one comes
	if next := get("ann", "reward"); next.DueAtMs != ticks[1].UnixMilli() {
		t.Errorf("after a cancel it is due at %d, want %v", next.DueAtMs, ticks[1])
	}
	bobs := get("bob", "reward")
	if moved, err := d.client.Shift(t.Context(), *bobs.Newest, 2*time.Hour); err != nil {
		t.Error(err)
	} else if got := get("bob", "reward"); got.NewestDueMs != moved.DueAt.UnixMilli() || got.DueAtMs != bobs.DueAtMs {
		t.Errorf("after its task was moved to %v: %+v", moved.DueAt, got)
	}
	if text := d.wantCode(t, 0, "schedule", "get", "bob", "reward").out; !strings.Contains(text, ", moved from ") {
		t.Errorf("a moved task is shown as %s", text)
	}
	d.leaveBehind(t, bobs)
	d.wantCode(t, 0, "schedule", "stop", "ann", "reward")
	d.wantCode(t, 4, "schedule", "pause", "ann", "reward")
	d.wantCode(t, 4, "schedule", "get", "ann", "none")
	d.wantCode(t, 1, "schedule", "stop", "ann")
	d.wantCode(t, 1, "schedule", "list", "--state", "gone")
	d.wantCode(t, 0, "schedule", "stop", "ann", "--all")
	wantList(listed("--state", "active"), "bob/reward active")
	if text := d.wantCode(t, 0, "schedule", "get", "bob", "reward").out; !strings.Contains(text, "cron Asia/Shanghai 0 8 1 * *") || strings.Contains(text, "no tick in") {
		t.Errorf("shown as %s", text)
	}
	_, err := d.client.Recur(t.Context(), "invoice", recur.Cron("0 8 31 4-6 *", "UTC"), remind.Recurring("bob", reminder{"hello"}), recur.Policy{})
	pipelinetest.Must(t, err)
	if text := d.wantCode(t, 0, "schedule", "get", "bob", "invoice").out; !strings.Contains(text, "April, June where they are too short") {
		t.Errorf("months without a tick are not named: %s", text)
	}
}
