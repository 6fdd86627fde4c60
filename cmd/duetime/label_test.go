package main_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// Commands find tasks by labels, and show them; a task without labels is shown as before.
func TestLabels(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	var made []task.Task
	for i, labels := range [][]task.Option{
		{task.Label("realm", "7"), task.Label("event", "siege=42")}, {task.Label("realm", "7")}, {task.Label("realm", "8")}, nil,
	} {
		spec := remind.New(fmt.Sprint("p", i), reminder{"hello"}, task.In(time.Duration(1+i)*time.Hour), labels...)
		one, err := d.client.Schedule(t.Context(), spec)
		pipelinetest.Must(t, err)
		made = append(made, one)
	}
	listed := func(args ...string) (owners []string) {
		for _, v := range decode[[]shown](t, d.wantCode(t, 0, append(args, "--json")...)) {
			owners = append(owners, v.Owner)
		}
		return owners
	}
	for _, c := range []struct{ args, want string }{
		{"task list --label realm=7", "p0 p1"},
		{"task list --label realm=7 --label event=siege=42", "p0"},
		{"task list --label realm=8 --label event=siege=42", ""},
		{"task list --label realm=7 --owner p1", "p1"},
		{"task list --label realm=7 --exclude-label event=siege=42", "p1"},
		{"task list --exclude-label event=siege=42 --exclude-label realm=8", "p1 p3"},
		{"task list --exclude-kind other --owner p1", "p1"},
		{"task list --exclude-kind other --exclude-kind " + remind.Name(), ""},
		{"task list", "p0 p1 p2 p3"},
	} {
		if got := strings.Join(listed(strings.Fields(c.args)...), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}

	type labelled struct {
		Labels map[string]string `json:"labels"`
	}
	got := decode[labelled](t, d.wantCode(t, 0, "task", "get", made[0].ID.String(), "--json"))
	if d := cmp.Diff(map[string]string{"realm": "7", "event": "siege=42"}, got.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	if text := d.wantCode(t, 0, "task", "get", made[0].ID.String()).out; !strings.Contains(text, "event=siege=42 realm=7") {
		t.Errorf("shown as %s", text)
	}
	for _, args := range [][]string{{"--json"}, nil} {
		plain := d.wantCode(t, 0, append([]string{"task", "get", made[3].ID.String()}, args...)...).out
		if strings.Contains(plain, "labels") {
			t.Errorf("without labels it is shown as %s", plain)
		}
	}
	for label, why := range map[string]string{
		"realm": "is not name=value", "Realm=7": "must have a name", "realm=": "must be 1 to 64 bytes",
	} {
		said := d.wantCode(t, 1, "task", "list", "--label", label).err
		if !strings.Contains(said, why) || !strings.Contains(said, "--label") {
			t.Errorf("%s: %s", label, said)
		}
	}
	d.wantCode(t, 1, "task", "list", "--label", "realm=7", "--label", "realm=8")
}

// Changes of many tasks choose them by labels too, also the daemon's.
func TestChangesByLabel(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	d.startDaemon(t)
	tasks := map[string]task.Task{}
	for _, owner := range []string{"retried", "discarded", "cancelled", "other"} {
		one, err := d.client.Schedule(t.Context(), remind.New(owner, reminder{"hello"}, task.In(time.Hour), task.Label("for", owner)))
		pipelinetest.Must(t, err)
		tasks[owner] = one
	}
	d.die(t, tasks["retried"])
	d.die(t, tasks["discarded"])
	d.wantCode(t, 0, "dead", "retry", "--label", "for=retried", "--yes")
	d.wantCode(t, 0, "dead", "discard", "--label", "for=discarded", "--yes")
	dry := d.wantCode(t, 0, "bulk", "cancel", "--label", "for=cancelled", "--dry-run").out
	if !strings.Contains(dry, "1 pending task: label for=cancelled") {
		t.Errorf("the preview says %s", dry)
	}
	but := []string{"bulk", "cancel", "--all", "--exclude-label", "for=retried", "--exclude-label", "for=other"}
	dry = d.wantCode(t, 0, append(but, "--dry-run")...).out
	if !strings.Contains(dry, "1 pending task: all tasks, without label for=retried, without label for=other") {
		t.Errorf("the preview says %s", dry)
	}
	d.wantCode(t, 0, append(but, "--yes", "--wait")...)
	for owner, want := range map[string]string{
		"retried": "pending", "discarded": "cancelled", "cancelled": "cancelled", "other": "pending",
	} {
		if got := decode[shown](t, d.wantCode(t, 0, "task", "get", tasks[owner].ID.String(), "--json")); got.State != want {
			t.Errorf("%s is %s", owner, got.State)
		}
	}
	again := d.wantCode(t, 0, "bulk", "cancel", "--label", "for=cancelled", "--yes").out
	if !strings.HasPrefix(again, "0 pending tasks") {
		t.Errorf("once more: %s", again)
	}
}
