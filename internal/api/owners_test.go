package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

const everyFourHours = "every 4h from 2026-01-01T00:00:00Z"

// blocked are the owners of the first page of blocked ones.
func (c clients) blocked(t testing.TB) (names []string) {
	t.Helper()
	page, err := c.ListBlockedOwners(t.Context(), &v1.ListBlockedOwnersRequest{})
	pipelinetest.Must(t, err)
	for _, o := range page.GetOwners() {
		names = append(names, o.GetOwner())
	}
	return names
}

// A blocked owner has no tasks and gets none, until it is unblocked. Both calls may be repeated.
func TestBlockOwner(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx := t.Context()
		dead := c.make(t, newTask(owner)).GetTaskId()
		w.kill(t, dead)
		for range 2 {
			c.make(t, newTask(owner))
		}
		for _, want := range []int64{2, 0} {
			got, err := c.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: owner})
			if pipelinetest.Must(t, err); got.GetCancelled() != want {
				t.Errorf("%d tasks were cancelled, want %d", got.GetCancelled(), want)
			}
		}
		left, err := c.List(ctx, &v1.ListRequest{Owner: owner, State: v1.State_STATE_PENDING})
		if pipelinetest.Must(t, err); len(left.GetTasks()) > 0 {
			t.Errorf("pending are %v", left.GetTasks())
		}
		page, err := c.ListBlockedOwners(ctx, &v1.ListBlockedOwnersRequest{})
		pipelinetest.Must(t, err)
		if n := len(page.GetOwners()); n != 1 || page.GetOwners()[0].GetActor() != "loopback@api" || page.GetOwners()[0].GetBlockedAt() == nil {
			t.Errorf("blocked are %v", page)
		}
		before := w.state(t)
		for name, call := range map[string]func() error{
			"Schedule": func() error { _, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: newTask(owner)}); return err },
			"ScheduleMany": func() error {
				_, err := c.ScheduleMany(ctx, &v1.ScheduleManyRequest{Tasks: []*v1.NewTask{newTask(owner + "x"), newTask(owner)}})
				return err
			},
			"Recur": func() error {
				_, err := c.Recur(ctx, &v1.RecurRequest{Owner: owner, Name: "tea", Kind: "tea", Timetable: everyFourHours})
				return err
			},
			"Retry": func() error { _, err := c.Retry(ctx, &v1.RetryRequest{TaskId: dead}); return err },
		} {
			t.Log(name)
			wantCode(t, call(), connect.CodeFailedPrecondition, "OWNER_BLOCKED")
		}
		if after := w.state(t); after != before {
			t.Errorf("refused calls changed %v to %v", before, after)
		}
		for range 2 {
			_, err = c.UnblockOwner(ctx, &v1.UnblockOwnerRequest{Owner: owner})
			pipelinetest.Must(t, err)
		}
		if names := c.blocked(t); len(names) > 0 {
			t.Errorf("blocked are %v", names)
		}
		c.make(t, newTask(owner))
		_, err = c.BlockOwner(ctx, &v1.BlockOwnerRequest{})
		wantField(t, err, connect.CodeInvalidArgument, "owner")
		_, err = c.UnblockOwner(ctx, &v1.UnblockOwnerRequest{Owner: strings.Repeat("x", 65)})
		wantField(t, err, connect.CodeInvalidArgument, "owner")
	})
}

// Recurrences of a blocked owner are stopped.
func TestBlockOwnerOfRecurrences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	_, err := c.Recur(ctx, &v1.RecurRequest{Owner: "ann", Name: "tea", Kind: "tea", Timetable: everyFourHours})
	pipelinetest.Must(t, err)
	_, err = c.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: "ann"})
	pipelinetest.Must(t, err)
	page, err := c.ListRecurrences(ctx, &v1.ListRecurrencesRequest{Owner: "ann"})
	pipelinetest.Must(t, err)
	if n := len(page.GetRecurrences()); n != 1 || page.GetRecurrences()[0].GetState() != v1.RecurrenceState_RECURRENCE_STATE_STOPPED {
		t.Errorf("its recurrences are %v", page)
	}
	status, body := w.post(t, "/duetime.v1.TaskService/Schedule", "application/json", "", `{"task": {"kind": "tea", "owner": "ann", "dueIn": "60s"}}`)
	if status != http.StatusBadRequest || !strings.Contains(body, "OWNER_BLOCKED") {
		t.Errorf("status %d, %s", status, body)
	}
}

// A token blocks and sees its own owners only, and none at all if it has kinds.
func TestBlocksInScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		callerOf("all", api.RoleOperate, nil, nil), callerOf("owners", api.RoleOperate, []string{"shop-*"}, nil),
		callerOf("kinds", api.RoleOperate, nil, []string{"order.*"}))
	ctx := t.Context()
	for _, c := range []struct {
		caller, owner string
		allowed       bool
	}{
		{"all", "ann", true},
		{"owners", "shop-1", true},
		{"owners", "ann", false},
		{"kinds", "ann", false},
	} {
		calls := w.dial(t, tokenOf(c.caller))
		_, err := calls.UnblockOwner(ctx, &v1.UnblockOwnerRequest{Owner: c.owner})
		_, also := calls.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: c.owner})
		for _, err := range []error{err, also} {
			if c.allowed {
				pipelinetest.Must(t, err)
			} else {
				wantCode(t, err, connect.CodePermissionDenied, "OUT_OF_SCOPE")
			}
		}
	}
	if d := cmp.Diff([]string{"ann", "shop-1"}, w.dial(t, tokenOf("all")).blocked(t)); d != "" {
		t.Errorf("all sees (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"shop-1"}, w.dial(t, tokenOf("owners")).blocked(t)); d != "" {
		t.Errorf("owners sees (-want +got):\n%s", d)
	}
	_, err := w.dial(t, tokenOf("kinds")).ListBlockedOwners(ctx, &v1.ListBlockedOwnersRequest{})
	wantCode(t, err, connect.CodePermissionDenied, "OUT_OF_SCOPE")
}

// Pages of blocked owners follow each other by name.
func TestListBlockedOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	want := []string{"ann", "bob", "cid"}
	for _, owner := range want {
		_, err := c.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: owner})
		pipelinetest.Must(t, err)
	}
	var got []string
	r := &v1.ListBlockedOwnersRequest{Limit: 2}
	for {
		page, err := c.ListBlockedOwners(ctx, r)
		pipelinetest.Must(t, err)
		for _, o := range page.GetOwners() {
			got = append(got, o.GetOwner())
		}
		if r.Cursor = page.GetNextCursor(); r.GetCursor() == "" {
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("blocked (-want +got):\n%s", d)
	}
	_, err := c.ListBlockedOwners(ctx, &v1.ListBlockedOwnersRequest{Limit: 1001})
	wantField(t, err, connect.CodeInvalidArgument, "limit")
	_, err = c.ListBlockedOwners(ctx, &v1.ListBlockedOwnersRequest{Cursor: "{}"})
	wantField(t, err, connect.CodeInvalidArgument, "cursor")
}

// A block that fails may have been made all the same, and its answer does not say that nothing was changed.
func TestBlockOwnerThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	c.make(t, newTask("ann"))
	_, err := w.db().ExecContext(ctx, "CREATE TRIGGER broken BEFORE UPDATE ON duetime_tasks FOR EACH ROW SIGNAL SQLSTATE '45000'")
	pipelinetest.Must(t, err)
	_, err = c.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: "ann"})
	wantCode(t, err, connect.CodeUnknown, "COMMIT_UNKNOWN")
	if d := cmp.Diff([]string{"ann"}, c.blocked(t)); d != "" {
		t.Errorf("blocked (-want +got):\n%s", d)
	}
	given, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.BlockOwner(given, &v1.BlockOwnerRequest{Owner: "bob"}); !errors.Is(err, context.Canceled) && connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("given up: %v", err)
	}
}
