package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// shownGroup is a group as the tool writes it.
type shownGroup struct {
	Name, State                 string
	Open, Done, Dead, Cancelled int
	FollowerID                  string `json:"follower_id"`
	FollowerOwner               string `json:"follower_owner"`
	CreatedAtMs, EndedAtMs      int64
	FollowerKind                string `json:"follower_kind"`
}

func TestGroups(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	then := remind.New("office", reminder{"all is done"}, task.In(0))
	var made []task.Task
	for _, name := range []string{"May", "June"} {
		pipelinetest.Must(t, d.client.InTx(t.Context(), func(tx *schedule.Tx) (err error) {
			specs := []task.Spec{remind.New("ann", reminder{"hello"}, task.In(time.Hour)), remind.New("bob", reminder{"hello"}, task.In(time.Hour))}
			made, err = tx.Group(t.Context(), name, specs, task.Follower{Spec: then, Open: name == "May"})
			return err
		}))
		then = remind.New("office", reminder{"June too"}, task.In(0))
	}
	follower := decode[shownGroup](t, d.wantCode(t, 0, "group", "get", "June", "--json")).FollowerID
	d.wantCode(t, 0, "task", "cancel", made[0].ID.String(), "--yes")
	got := decode[shownGroup](t, d.wantCode(t, 0, "group", "get", "June", "--json"))
	want := shownGroup{
		Name: "June", State: "sealed", Open: 1, Cancelled: 1, FollowerID: follower, FollowerOwner: "office", FollowerKind: remind.Name(),
	}
	if got != want {
		t.Errorf("group is %+v, want %+v", got, want)
	}
	if members := decode[[]shown](t, d.wantCode(t, 0, "task", "list", "--group", "June", "--state", "pending", "--json")); len(members) != 1 {
		t.Errorf("pending members are %+v, want one", members)
	}
	d.wantCode(t, 0, "bulk", "cancel", "--group", "June", "--yes", "--json")
	if text := d.wantCode(t, 0, "task", "get", made[1].ID.String()).out; !strings.Contains(text, "June") {
		t.Errorf("a member is shown as %s, want its group in it", text)
	}
	d.wantCode(t, 0, "task", "cancel", made[1].ID.String(), "--yes")
	if text := d.wantCode(t, 0, "group", "get", "June").out; !strings.Contains(text, "ended") || !strings.Contains(text, follower) {
		t.Errorf("the group is shown as %s, want it ended", text)
	}
	d.wantCode(t, 0, "task", "get", follower)
	first := d.wantCode(t, 0, "group", "list", "--limit", "1")
	_, after, more := strings.Cut(strings.TrimSpace(first.err), "--after ")
	if !more || !strings.Contains(first.out, "June") || strings.Contains(first.out, "May") {
		t.Errorf("the first page is %s, and says %q", first.out, first.err)
	}
	for _, args := range [][]string{{"--after", after}, {"--open"}} {
		page := decode[[]shownGroup](t, d.wantCode(t, 0, append([]string{"group", "list", "--json"}, args...)...))
		if len(page) != 1 || page[0].Name != "May" || page[0].State != "open" {
			t.Errorf("%v: %+v, want May alone", args, page)
		}
	}
	for _, args := range [][]string{
		{"group"},
		{"group", "get"},
		{"group", "list", "--limit", "0"},
		{"group", "list", "--after", "{}"},
		{"task", "list", "--group", strings.Repeat("x", 65)},
	} {
		d.wantCode(t, 1, args...)
	}
	d.wantCode(t, 4, "group", "get", "July")
}
