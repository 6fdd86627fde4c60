package main_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// blocked is a blocked owner as the tool writes it.
type blocked struct {
	Owner string
	AtMs  int64 `json:"at_ms"`
	Actor string
}

func TestOwnerBlock(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made, other := d.schedule(t, "ann", time.Hour), d.schedule(t, "bob", time.Hour)
	state := func(one task.Task) string {
		return decode[shown](t, d.wantCode(t, 0, "task", "get", one.ID.String(), "--json")).State
	}
	list := func(args ...string) (owners []string) {
		for _, b := range decode[[]blocked](t, d.wantCode(t, 0, append([]string{"owner", "blocked", "--json"}, args...)...)) {
			if owners = append(owners, b.Owner); !strings.Contains(b.Actor, "@") || b.AtMs == 0 {
				t.Errorf("listed is %+v", b)
			}
		}
		return owners
	}
	for _, want := range []int{1, 0} { // it may be repeated
		if got := decode[map[string]int](t, d.wantCode(t, 0, "owner", "block", "ann", "--json")); got["cancelled"] != want {
			t.Errorf("cancelled: %v, want %d", got, want)
		}
	}
	if a, b := state(made), state(other); a != "cancelled" || b != "pending" {
		t.Errorf("the owner's task is %s, the other one is %s", a, b)
	}
	_, err := d.client.Schedule(t.Context(), remind.New("ann", reminder{"hello"}, task.In(time.Hour)))
	if !errors.Is(err, task.ErrOwnerBlocked) {
		t.Errorf("scheduled for a blocked owner: %v", err)
	}
	if out := d.wantCode(t, 0, "owner", "block", "zoe").out; out != "blocked: 0 tasks cancelled\n" {
		t.Errorf("it said %q", out)
	}
	if got := list(); !slices.Equal(got, []string{"ann", "zoe"}) {
		t.Errorf("blocked are %v", got)
	}
	page := d.wantCode(t, 0, "owner", "blocked", "--limit", "1")
	_, after, more := strings.Cut(strings.TrimSpace(page.err), "--after ")
	if !more || !strings.Contains(page.out, "ann") || strings.Contains(page.out, "zoe") {
		t.Errorf("the first page is %s, and says %q", page.out, page.err)
	}
	if got := list("--after", after); !slices.Equal(got, []string{"zoe"}) {
		t.Errorf("behind %s are %v", after, got)
	}
	for range 2 {
		d.wantCode(t, 0, "owner", "unblock", "ann")
	}
	if got := list(); !slices.Equal(got, []string{"zoe"}) {
		t.Errorf("blocked are %v", got)
	}
	_, err = d.client.Schedule(t.Context(), remind.New("ann", reminder{"hello"}, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	for _, args := range [][]string{
		{"owner"},
		{"owner", "block"},
		{"owner", "block", ""},
		{"owner", "unblock", ""},
		{"owner", "blocked", "--limit", "0"},
		{"owner", "blocked", "--after", "{}"},
	} {
		d.wantCode(t, 1, args...)
	}
}
