package api_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// dueNow is a task of the owner that is due, in a queue.
func dueNow(owner, queue string) *v1.NewTask {
	t := newTask(owner)
	t.Queue, t.Due = queue, &v1.NewTask_DueIn{DueIn: durationpb.New(0)}
	return t
}

// A call waits for what is due of the owner, and for nothing else.
func TestAwaitDue(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		c.make(t, newTask(owner))
		c.make(t, dueNow(owner+" and more", ""))
		await := func(kind string, timeout *durationpb.Duration, want *v1.AwaitDueResponse) {
			t.Helper()
			got, err := c.AwaitDue(ctx, &v1.AwaitDueRequest{Owner: owner, Kind: kind, Timeout: timeout})
			if pipelinetest.Must(t, err); !proto.Equal(got, want) {
				t.Errorf("kind %q: %v, want %v", kind, got, want)
			}
		}
		long := durationpb.New(10 * time.Second)
		await("", long, &v1.AwaitDueResponse{})
		due := c.make(t, dueNow(owner, "")).GetTaskId()
		await("", nil, &v1.AwaitDueResponse{Left: 1})
		await("order.expire", nil, &v1.AwaitDueResponse{Left: 1})
		await("mail", long, &v1.AwaitDueResponse{})
		_, err := c.Cancel(ctx, &v1.CancelRequest{TaskId: due})
		pipelinetest.Must(t, err)
		await("", long, &v1.AwaitDueResponse{})
		for field, wrong := range map[string]*v1.AwaitDueRequest{
			"owner":   {},
			"timeout": {Owner: owner, Timeout: durationpb.New(10*time.Second + 1)},
		} {
			_, err := c.AwaitDue(ctx, wrong)
			wantField(t, err, connect.CodeInvalidArgument, field)
		}
		_, err = c.AwaitDue(ctx, &v1.AwaitDueRequest{Owner: owner, Timeout: durationpb.New(0)})
		wantField(t, err, connect.CodeInvalidArgument, "timeout")
	})
}

// The answer tells why tasks are due still.
func TestAwaitDueTellsWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	c.make(t, dueNow("ann", "reports"))
	c.make(t, dueNow("ann", "reports"))
	c.make(t, dueNow("ann", ""))
	_, err := w.pipeline.Console().Pause(ctx, "reports")
	pipelinetest.Must(t, err)
	rate, err := task.ParseRate("5/s")
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, w.pipeline.Console().SetLimits(ctx, "default", console.LimitRate(&rate)))
	_, err = w.db().ExecContext(ctx, "UPDATE duetime_tasks SET attempt = 1 WHERE queue = 'reports' LIMIT 1")
	pipelinetest.Must(t, err)
	got, err := c.AwaitDue(ctx, &v1.AwaitDueRequest{Owner: "ann"})
	if want := (&v1.AwaitDueResponse{Left: 3, Failed: 1, Paused: 2, Limited: 1}); err != nil || !proto.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// A task is shifted shortly before it is due, and neither earlier nor later.
func TestShiftDueWithin(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx := t.Context()
		auction := c.make(t, newTask(owner)) // due in an hour
		over := c.make(t, dueNow(owner, ""))
		extend := func(id string, within time.Duration) (*v1.ShiftResponse, error) {
			return c.Shift(ctx, &v1.ShiftRequest{TaskId: id, By: durationpb.New(time.Minute), DueWithin: durationpb.New(within)})
		}
		before := w.state(t)
		_, err := extend(auction.GetTaskId(), 50*time.Minute)
		wantCode(t, err, connect.CodeFailedPrecondition, "NOT_DUE_SOON")
		_, err = extend(over.GetTaskId(), time.Hour)
		wantCode(t, err, connect.CodeFailedPrecondition, "ALREADY_DUE")
		_, err = extend(auction.GetTaskId(), 0)
		wantField(t, err, connect.CodeInvalidArgument, "due_within")
		if after := w.state(t); after != before {
			t.Errorf("refused calls changed %v to %v", before, after)
		}
		got, err := extend(auction.GetTaskId(), 70*time.Minute)
		pipelinetest.Must(t, err)
		if later := got.GetTask().GetDueAt().AsTime().Sub(auction.GetDueAt().AsTime()); later != time.Minute {
			t.Errorf("it is due %v later, want a minute", later)
		}
	})
}
