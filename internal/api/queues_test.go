package api_test

import (
	"path"
	"testing"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		queue := "of-" + path.Base(t.Name()) // owners here have characters that queues may not
		for _, want := range []bool{true, false} {
			made, err := c.AddQueue(ctx, &v1.AddQueueRequest{Queue: queue})
			if pipelinetest.Must(t, err); made.GetAdded() != want {
				t.Errorf("added %v, want %v", made.GetAdded(), want)
			}
		}
		made, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: dueNow(owner, queue)})
		pipelinetest.Must(t, err)
		_, err = c.RetireQueue(ctx, &v1.RetireQueueRequest{Queue: queue})
		wantCode(t, err, connect.CodeFailedPrecondition, "QUEUE_USED")
		_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: made.GetTask().GetTaskId()})
		pipelinetest.Must(t, err)
		found := map[string]*v1.Queue{}
		for cursor := ""; ; {
			page, err := c.ListQueues(ctx, &v1.ListQueuesRequest{Limit: 1, Cursor: cursor})
			if pipelinetest.Must(t, err); len(page.GetQueues()) != 1 {
				t.Fatalf("a page of one: %v", page)
			}
			found[page.GetQueues()[0].GetQueue()] = page.GetQueues()[0]
			if cursor = page.GetNextCursor(); cursor == "" {
				break
			}
		}
		if !found[queue].GetAdded() || found["default"] == nil || found["default"].GetAdded() {
			t.Errorf("listed: %v", found)
		}
		_, err = c.RetireQueue(ctx, &v1.RetireQueueRequest{Queue: queue})
		pipelinetest.Must(t, err)
		_, err = c.RetireQueue(ctx, &v1.RetireQueueRequest{Queue: queue})
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a queue that is retired by now: %v", err)
		}
		if _, err = c.Schedule(ctx, &v1.ScheduleRequest{Task: dueNow(owner, queue)}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a task of a retired queue: %v", err)
		}
	})
}

// Queues have tasks of all owners and kinds: a token with some does not see them.
func TestQueuesAreOutOfScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("shop", api.RoleOperate, []string{"shop-*"}, nil), callerOf("mails", api.RoleOperate, nil, []string{"mail"}))
	for _, name := range []string{"shop", "mails"} {
		c := w.dial(t, tokenOf(name))
		_, added := c.AddQueue(t.Context(), &v1.AddQueueRequest{Queue: "calls"})
		_, retired := c.RetireQueue(t.Context(), &v1.RetireQueueRequest{Queue: "calls"})
		_, listed := c.ListQueues(t.Context(), &v1.ListQueuesRequest{})
		for _, err := range []error{added, retired, listed} {
			wantCode(t, err, connect.CodePermissionDenied, "OUT_OF_SCOPE")
		}
	}
}
