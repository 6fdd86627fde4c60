package main_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

const nobody = "01900000-0000-7000-8000-000000000000" // no task has this id

// shown is a task as the tool writes it.
type shown struct {
	ID       string `json:"task_id"`
	Kind     string `json:"kind"`
	Owner    string `json:"owner"`
	Subject  string `json:"subject"`
	State    string `json:"state"`
	DueAtMs  int64  `json:"due_at_ms"`
	RunAtMs  int64  `json:"run_at_ms"`
	Version  int64  `json:"version"`
	Attempt  int    `json:"attempt"`
	Payload  any    `json:"payload"`
	Finished *int64 `json:"finished_at_ms"`
}

func TestTaskGet(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", time.Hour)
	got := decode[shown](t, d.wantCode(t, 0, "task", "get", made.ID.String(), "--json"))
	want := shown{
		ID: made.ID.String(), Kind: "test.remind", Owner: "ann", Subject: "cat", State: "pending",
		DueAtMs: made.DueAt.UnixMilli(), RunAtMs: made.DueAt.UnixMilli(), Version: 1, Payload: map[string]any{"text": "hello"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("get (-want +got):\n%s", diff)
	}
	d.wantCode(t, 4, "task", "get", nobody)
}

func TestTaskList(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	later, sooner, other := d.schedule(t, "ann", 2*time.Hour), d.schedule(t, "ann", time.Hour), d.schedule(t, "bob", 3*time.Hour)
	_, err := d.client.Cancel(t.Context(), other.ID)
	pipelinetest.Must(t, err)
	for _, c := range []struct {
		args []string
		want []task.Task
	}{
		{nil, []task.Task{sooner, later, other}},
		{[]string{"--owner", "ann"}, []task.Task{sooner, later}},
		{[]string{"--kind", "test.remind"}, []task.Task{sooner, later, other}},
		{[]string{"--kind", "test.other"}, nil},
		{[]string{"--state", "cancelled"}, []task.Task{other}},
		{[]string{"--owner", "bob", "--state", "pending"}, nil},
		{[]string{"--due-before", later.DueAt.UTC().Format(time.RFC3339Nano)}, []task.Task{sooner}},
		{[]string{"--limit", "2"}, []task.Task{sooner, later}},
	} {
		args := append([]string{"task", "list", "--json"}, c.args...)
		want, got := []string{}, []string{}
		for _, v := range c.want {
			want = append(want, v.ID.String())
		}
		for _, v := range decode[[]shown](t, d.wantCode(t, 0, args...)) {
			got = append(got, v.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, diff)
		}
	}
	if empty := d.wantCode(t, 0, "task", "list", "--owner", "nobody", "--json"); strings.TrimSpace(empty.out) != "[]" {
		t.Errorf("an empty list is %q", empty.out)
	}
	if mistyped := d.wantCode(t, 0, "task", "list", "--queue", "nosuch"); !strings.Contains(mistyped.err, `queue "nosuch" is none of`) {
		t.Errorf("a queue that is none: %q", mistyped.err)
	}
	table := d.wantCode(t, 0, "task", "list")
	if lines := strings.Split(strings.TrimSpace(table.out), "\n"); len(lines) != 4 || !strings.Contains(lines[1], sooner.ID.String()) {
		t.Errorf("the table:\n%s", table.out)
	}
}

// A list continues after the last task of its page, also between tasks that are due at the same moment, and even if that
// task has changed.
func TestListsGoOnBehindACursor(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	want := map[string]bool{}
	for range 5 {
		made := d.die(t, d.schedule(t, "ann", time.Hour))
		want[made.ID.String()] = true
	}
	_, err := d.db.Exec(`UPDATE duetime_tasks SET due_at = 1900000000000`)
	pipelinetest.Must(t, err)
	for _, verb := range []string{"task", "dead"} {
		var got []string
		for args, more := []string{verb, "list", "--limit", "2", "--json"}, true; more; {
			a := d.wantCode(t, 0, args...)
			for _, v := range decode[[]shown](t, a) {
				got = append(got, v.ID)
			}
			var cursor string
			_, cursor, more = strings.Cut(a.err, "there are more: go on with --after ")
			args = []string{verb, "list", "--limit", "2", "--json", "--after", cursor}
		}
		if len(got) != len(want) || !slices.IsSorted(got) || !want[got[0]] {
			t.Errorf("%s list in pages of two: %v, want each of %v once", verb, got, want)
		}
		if whole := d.wantCode(t, 0, verb, "list", "--limit", "5"); whole.err != "" || strings.Count(whole.out, "\n") != 6 {
			t.Errorf("%s list of all says %q", verb, whole.err)
		}
		if got := d.wantCode(t, 1, verb, "list", "--after", "7"); !strings.Contains(got.err, "--after") {
			t.Errorf("a wrong cursor: %s", got.err)
		}
	}
}

func TestTimesAndZones(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	id := d.schedule(t, "ann", 5*time.Hour).ID.String()
	moved := func(args ...string) time.Time {
		t.Helper()
		got := decode[shown](t, d.wantCode(t, 0, append([]string{"task", "reschedule", id, "--json"}, args...)...))
		return time.UnixMilli(got.DueAtMs).UTC()
	}
	if got, want := moved("--at", "2031-07-01 14:00", "--tz", "Asia/Shanghai"), time.Date(2031, 7, 1, 6, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("14:00 in Shanghai is %v, want %v", got, want)
	}
	if got := time.Until(moved("--at", "+2h")); got < 119*time.Minute || got > 121*time.Minute {
		t.Errorf("+2h is in %v", got)
	}
	if got := moved("--at", "14:00", "--tz", "-03:00"); got.Hour() != 17 || got.Minute() != 0 || time.Until(got) < 0 || time.Until(got) > 24*time.Hour {
		t.Errorf("14:00 at -03:00 is %v", got)
	}
	if got := moved("--by", "1d"); time.Until(got) < 24*time.Hour {
		t.Errorf("a day later is %v", got)
	}
	moved("--at", "2031-07-01T06:00:00Z")
	for _, args := range [][]string{{"task", "list"}, {"task", "get", id}} {
		if got := d.wantCode(t, 0, append(args, "--tz", "Asia/Shanghai")...); !strings.Contains(got.out, "2031-07-01T14:00:00.000+08:00") {
			t.Errorf("%v in Shanghai:\n%s", args, got.out)
		}
	}
	for bound, n := range map[string]int{"2031-07-01 14:00": 1, "2031-07-01 14:00:01": 0, "+1d": 1, "now": 1} {
		got := decode[[]shown](t, d.wantCode(t, 0, "task", "list", "--due-after", bound, "--tz", "+08:00", "--json"))
		if len(got) != n {
			t.Errorf("due after %s: %d tasks, want %d", bound, len(got), n)
		}
	}
	d.wantCode(t, 1, "task", "list", "--tz", "Mars/Base")
}

// A pipe gets the same text as a terminal, apart from the width: only --json writes JSON.
func TestPipesGetTablesUnlessJSONIsAskedFor(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	id := d.schedule(t, "ann", time.Hour).ID.String()
	for _, args := range [][]string{
		{"task", "get", id}, {"task", "reschedule", id, "--by", "1h"}, {"task", "list"}, {"task", "cancel", id}, {"dead", "list"},
	} {
		if got := d.wantCode(t, 0, args...).out; strings.HasPrefix(got, "{") || strings.HasPrefix(got, "[") || got == "" {
			t.Errorf("%v wrote %q", args, got)
		}
	}
}

func TestTaskCancel(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", time.Hour)
	got := decode[shown](t, d.wantCode(t, 0, "task", "cancel", made.ID.String(), "--json"))
	if got.State != "cancelled" || got.Version != 2 || got.Finished == nil {
		t.Errorf("cancelled: %+v", got)
	}
	d.wantCode(t, 3, "task", "cancel", made.ID.String())
	d.wantCode(t, 4, "task", "cancel", nobody)
	d.wantVerify(t, "the index follows", 0, map[string]int{"cancelled": 1})
}

func TestTaskReschedule(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, "ann", 5*time.Hour)
	id := made.ID.String()
	by := decode[shown](t, d.wantCode(t, 0, "task", "reschedule", id, "--by", "-2h", "--json"))
	if want := made.DueAt.Add(-2 * time.Hour).UnixMilli(); by.DueAtMs != want || by.RunAtMs != want || by.Version != 2 || by.State != "pending" {
		t.Errorf("--by -2h: %+v, want due %d", by, want)
	}
	later := decode[shown](t, d.wantCode(t, 0, "task", "reschedule", id, "--by", "30m", "--json"))
	if want := by.DueAtMs + (30 * time.Minute).Milliseconds(); later.DueAtMs != want {
		t.Errorf("--by 30m: %+v, want due %d", later, want)
	}
	at := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	moved := decode[shown](t, d.wantCode(t, 0, "task", "reschedule", id, "--at", at.Format(time.RFC3339), "--json"))
	if moved.DueAtMs != at.UnixMilli() || moved.Version != 4 {
		t.Errorf("--at %v: %+v", at, moved)
	}
	d.wantVerify(t, "the index follows", 0, map[string]int{"pending": 1})

	began := time.Now().Add(-time.Second)
	now := decode[shown](t, d.wantCode(t, 0, "task", "reschedule", id, "--by=-1000h", "--json"))
	if due := time.UnixMilli(now.DueAtMs); due.Before(began) || due.After(time.Now().Add(time.Second)) {
		t.Errorf("--by -1000h is due at %v, want now", due)
	}
	past := decode[shown](t, d.wantCode(t, 0, "task", "reschedule", id, "--at", "2001-01-01T00:00:00Z", "--json"))
	if due := time.UnixMilli(past.DueAtMs); due.Before(began) || due.After(time.Now().Add(time.Second)) {
		t.Errorf("--at the past is due at %v, want now", due)
	}
	d.wantCode(t, 0, "task", "cancel", id)
	d.wantCode(t, 3, "task", "reschedule", id, "--by", "-2h")
	d.wantCode(t, 4, "task", "reschedule", nobody, "--by", "-2h")
}

func TestStats(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	type stats struct {
		States map[string]int     `json:"states"`
		Kinds  map[string]int     `json:"kinds"`
		LagMs  map[string]float64 `json:"lag_ms"`
	}
	want := stats{map[string]int{"pending": 0, "done": 0, "cancelled": 0, "dead": 0}, map[string]int{}, map[string]float64{"p50": 0, "p99": 0, "max": 0}}
	if diff := cmp.Diff(want, decode[stats](t, d.wantCode(t, 0, "stats", "--json"))); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
	if plain := d.wantCode(t, 0, "stats"); strings.Count(plain.out, "none was done") != 3 {
		t.Errorf("of nothing: %s", plain.out)
	}
	for i, lag := range []int{1, 2, 30} {
		made := d.schedule(t, "ann", time.Duration(i+1)*time.Hour)
		_, err := d.db.Exec(`UPDATE duetime_tasks SET state = 1, finished_at = due_at + ? WHERE id = ?`, lag, made.ID[:])
		pipelinetest.Must(t, err)
	}
	d.schedule(t, "ann", time.Hour)
	want = stats{map[string]int{"pending": 1, "done": 3, "cancelled": 0, "dead": 0}, map[string]int{"test.remind": 4}, map[string]float64{"p50": 2, "p99": 30, "max": 30}}
	if diff := cmp.Diff(want, decode[stats](t, d.wantCode(t, 0, "stats", "--json"))); diff != "" {
		t.Errorf("of four (-want +got):\n%s", diff)
	}
	if plain := d.wantCode(t, 0, "stats"); !strings.Contains(plain.out, "state done") {
		t.Errorf("without --json: %s", plain.out)
	}
}
