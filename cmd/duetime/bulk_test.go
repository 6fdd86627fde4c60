package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// operated is an operation as the tool writes it.
type operated struct {
	ID        string `json:"operation_id"`
	Verb      string
	State     string
	Matched   int64
	Changed   int64
	Ended     int64
	Unchanged int64 `json:"left_alone"`
	Actor     string
	History   []struct{ Event, Actor, Detail string }
}

// startDaemon runs one on the deployment.
func (d deployment) startDaemon(t *testing.T) {
	t.Helper()
	servers := []string{"DUETIME_ZOOKEEPER__SERVERS=" + pipelinetest.ZooKeeper(t).Addr(), "DUETIME_DAEMON__ADMIN=127.0.0.1:0"}
	p := pipelinetest.Run(t, pipelinetest.Build(t, "./cmd/daemon"), append(slices.Clone(d.env), servers...))
	p.WaitLine(t, `"msg":"ready"`)
}

// dueTimes returns how far the tasks' due times have moved.
func (d deployment) dueTimes(t *testing.T, tasks []task.Task) (moved []time.Duration) {
	t.Helper()
	for _, made := range tasks {
		got := decode[shown](t, d.wantCode(t, 0, "task", "get", made.ID.String(), "--json"))
		moved = append(moved, time.UnixMilli(got.DueAtMs).Sub(made.DueAt))
	}
	return moved
}

func TestBulkRefuses(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.schedule(t, "ann", time.Hour)
	for _, c := range []struct {
		why  string
		args []string
	}{
		{"give a filter, or --all", []string{"bulk", "cancel", "--yes"}},
		{"give a filter, or --all", []string{"bulk", "cancel", "--exclude-kind", "a", "--yes"}},
		{"give ids, a filter, or --all", []string{"dead", "retry", "--exclude-kind", "a", "--yes"}},
		{"give either ids or filters", []string{"dead", "retry", nobody, "--exclude-kind", "a", "--yes"}},
		{"must be name=value", []string{"bulk", "cancel", "--all", "--exclude-label", "a", "--yes"}},
		{"exclude.kinds must be", []string{"bulk", "cancel", "--all", "--exclude-kind", "", "--yes"}},
		{"all must not be set beside other fields", []string{"bulk", "cancel", "--all", "--owner", "ann", "--yes"}},
		{"--state: cancel is for pending tasks, not for dead ones", []string{"bulk", "cancel", "--state", "dead", "--all", "--yes"}},
		{"--state: retry is for dead tasks, not for pending ones", []string{"bulk", "retry", "--state", "pending", "--all", "--yes"}},
		{"by must be whole milliseconds", []string{"bulk", "shift", "--all", "--yes"}},
		{"unknown flag: --recurrences", []string{"bulk", "cancel", "--all", "--recurrences", "--yes"}},
		{"--by:", []string{"bulk", "shift", "--all", "--by", "soon", "--yes"}},
		{"is none of the deployment's", []string{"bulk", "requeue", "--all", "--to", "elsewhere", "--yes"}},
		{"to must be", []string{"bulk", "requeue", "--all", "--yes"}},
		{"--due-before:", []string{"bulk", "cancel", "--due-before", "noon", "--yes"}},
		{"owner_prefix must not be set beside owner", []string{"bulk", "cancel", "--owner", "a", "--owner-prefix", "a", "--yes"}},
		{"rate must be", []string{"bulk", "cancel", "--all", "--rate=-1", "--yes"}},
		{"without a terminal to ask at this needs --yes", []string{"bulk", "cancel", "--all", "--json"}},
		{"bulk needs one of its commands", []string{"bulk"}},
	} {
		if got := d.wantCode(t, 1, c.args...); !strings.Contains(got.err, c.why) {
			t.Errorf("%v said %q, want %q", c.args, got.err, c.why)
		}
	}
	for _, verb := range []string{"get", "pause", "resume", "stop"} {
		d.wantCode(t, 4, "bulk", verb)
		d.wantCode(t, 4, "bulk", verb, nobody)
	}
	d.wantCode(t, 4, "bulk", "undo", nobody)
	if all := decode[[]operated](t, d.wantCode(t, 0, "bulk", "list", "--json")); len(all) != 0 {
		t.Errorf("operations were made: %+v", all)
	}
}

// Maintenance of two hours: every timer comes two hours later, and recurrences stay on their timetables. Before the daemon runs, the operation is looked at, paused and
// resumed.
func TestBulkShift(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	var shifted, others []task.Task
	for i := range 12 {
		shifted = append(shifted, d.schedule(t, fmt.Sprint("player-", i), time.Hour+time.Duration(i)*time.Minute))
	}
	others = append(others, d.schedule(t, "clan-1", time.Hour), d.schedule(t, "player-1", 5*time.Hour))
	args := []string{"bulk", "shift", "--by", "2h", "--owner-prefix", "player-", "--due-before", "+3h"}
	r, err := d.client.Recur(t.Context(), "hourly", recur.Every(time.Hour), remind.Recurring("player-0", reminder{"hello"}), recur.Policy{})
	pipelinetest.Must(t, err)
	tick, err := d.client.Get(t.Context(), r.Newest)
	pipelinetest.Must(t, err)
	others = append(others, tick)

	if too := d.wantCode(t, 0, append(args, "--recurrences", "--dry-run")...).out; !strings.Contains(too, "13 pending tasks") || strings.Contains(too, "stay") {
		t.Errorf("with recurrences the preview says %s", too)
	}
	dry := d.wantCode(t, 0, append(args, "--dry-run")...).out
	for _, part := range []string{"12 pending tasks: owner prefix player-", "tasks of recurrences stay on their timetables", "cat", "and 2 more"} {
		if !strings.Contains(dry, part) {
			t.Errorf("the preview lacks %q: %s", part, dry)
		}
	}
	said := d.wantCode(t, 0, append(args, "--yes")...).out
	made := decode[[]operated](t, d.wantCode(t, 0, "bulk", "list", "--json"))
	if len(made) != 1 || made[0].State != "running" || made[0].Matched != 12 || !strings.Contains(made[0].Actor, "@") {
		t.Fatalf("made were %+v", made)
	}
	id := made[0].ID
	if !strings.Contains(said, "duetime bulk get "+id) {
		t.Errorf("the command said %s", said)
	}
	if got := decode[operated](t, d.wantCode(t, 0, "bulk", "pause", "--json")); got.State != "paused" {
		t.Errorf("after a pause it is %+v", got)
	}
	d.startDaemon(t)
	if got := decode[operated](t, d.wantCode(t, 0, "bulk", "get", id, "--json")); got.State != "paused" || got.Changed != 0 {
		t.Errorf("paused it is %+v", got)
	}
	d.wantCode(t, 0, "bulk", "resume")
	pipelinetest.Await(t, "the operation to be done", func() bool {
		return decode[operated](t, d.wantCode(t, 0, "bulk", "get", id, "--json")).State == "done"
	})
	got := decode[operated](t, d.wantCode(t, 0, "bulk", "get", id, "--json"))
	if got.Changed != 12 || got.Ended != 0 || got.Unchanged != 0 {
		t.Errorf("done it is %+v", got)
	}
	var events []string
	for _, h := range got.History {
		events = append(events, h.Event)
	}
	if want := []string{"begun", "paused", "resumed", "over"}; !slices.Equal(events, want) {
		t.Errorf("its life is %v, want %v", events, want)
	}
	for i, by := range d.dueTimes(t, append(slices.Clone(shifted), others...)) {
		if want := 2 * time.Hour; by != want && i < len(shifted) || by != 0 && i >= len(shifted) {
			t.Errorf("task %d has moved by %v", i, by)
		}
	}
	due := shifted[0].DueAt.Add(2 * time.Hour).Format("2006-01-02T15:04:05.000Z07:00")
	want := []string{"service scheduled", "operator moved by 2h0m0s to " + due + ", operation " + id}
	if life := d.life(t, shifted[0].ID); !slices.Equal(life, want) {
		t.Errorf("its life is %v, want %v", life, want)
	}
	d.wantCode(t, 3, "bulk", "stop", id)

	dry = d.wantCode(t, 0, "bulk", "undo", id, "--dry-run").out
	if !strings.HasPrefix(dry, "12 pending tasks: what operation "+id+" moved, and nothing has changed since\n") {
		t.Errorf("the preview of its undo says %s", dry)
	}
	if got := decode[operated](t, d.wantCode(t, 0, "bulk", "undo", id, "--yes", "--wait", "--json")); got.Changed != 12 {
		t.Errorf("its undo is %+v", got)
	}
	for i, by := range d.dueTimes(t, shifted) {
		if by != 0 {
			t.Errorf("task %d has moved by %v", i, by)
		}
	}
	text := d.wantCode(t, 0, "bulk", "get", id).out
	if !strings.Contains(text, "12 changed") || !strings.Contains(text, "shift by 2h0m0s") {
		t.Errorf("shown as %s", text)
	}
	pipelinetest.Await(t, "the index to follow", func() bool { return d.run(t, nil, "verify").code == 0 })
}

// The other verbs, each waited for.
func TestBulkWaits(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.startDaemon(t)
	dead := d.die(t, d.schedule(t, "ann", 0))
	other := d.die(t, d.schedule(t, "bob", 0))
	waits := d.schedule(t, "cid", time.Hour)
	state := func(one task.Task) string {
		return decode[shown](t, d.wantCode(t, 0, "task", "get", one.ID.String(), "--json")).State
	}
	for _, c := range []struct {
		args  []string
		one   task.Task
		state string
	}{
		{[]string{"retry", "--owner", "ann", "--state", "dead"}, dead, "pending"},
		{[]string{"discard", "--all"}, other, "cancelled"},
		{[]string{"cancel", "--subject", "cat", "--owner", "cid", "--rate", "1000"}, waits, "cancelled"},
	} {
		out := d.wantCode(t, 0, append([]string{"bulk"}, append(c.args, "--yes", "--wait", "--json")...)...)
		got := decode[operated](t, out)
		if now := state(c.one); got.State != "done" || got.Changed != 1 || now != c.state {
			t.Errorf("%v: %+v, and the task is %s, want %s", c.args, got, now, c.state)
		}
	}
	none := d.wantCode(t, 0, "bulk", "cancel", "--owner", "cid", "--yes", "--wait").out
	if !strings.HasPrefix(none, "0 pending tasks") {
		t.Errorf("without a task it said %s", none)
	}
	if all := decode[[]operated](t, d.wantCode(t, 0, "bulk", "list", "--json")); len(all) != 3 || all[0].Verb != "cancel" {
		t.Errorf("listed are %+v", all)
	}
}
