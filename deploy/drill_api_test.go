package deploy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
)

// callAPI calls every method as the account api, by the token of its Secret: the account lacks no right.
func (d *drill) callAPI(t *testing.T) {
	url := d.apps["api"].URL(t, "api")
	bearer := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			req.Header().Set("Authorization", "Bearer "+apiToken)
			return next(ctx, req)
		}
	}))
	tasks := duetimev1connect.NewTaskServiceClient(http.DefaultClient, url, bearer)
	t.Run("tasks", func(t *testing.T) { d.callTasks(t, tasks) })
	t.Run("recurrences", func(t *testing.T) {
		callRecurrences(t, duetimev1connect.NewRecurrenceServiceClient(http.DefaultClient, url, bearer))
	})
	t.Run("operations", func(t *testing.T) {
		callOperations(t, duetimev1connect.NewOperationServiceClient(http.DefaultClient, url, bearer))
	})
	t.Run("owners", func(t *testing.T) {
		callOwners(t, duetimev1connect.NewOwnerServiceClient(http.DefaultClient, url, bearer))
	})
	_, err := duetimev1connect.NewTaskServiceClient(http.DefaultClient, url).List(t.Context(), &v1.ListRequest{})
	if connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
}

// later is a task of nobody's, due in an hour.
func later() *v1.NewTask {
	return &v1.NewTask{
		Kind: "order.expire", Owner: "customer-7", Labels: map[string]string{"shop": "a"},
		Due: &v1.NewTask_DueIn{DueIn: durationpb.New(time.Hour)},
	}
}

func (d *drill) callTasks(t *testing.T, c duetimev1connect.TaskServiceClient) {
	ctx := t.Context()
	made, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: later()})
	pipelinetest.Must(t, err)
	id := made.GetTask().GetTaskId()
	_, err = c.ScheduleMany(ctx, &v1.ScheduleManyRequest{Tasks: []*v1.NewTask{later(), later()}})
	pipelinetest.Must(t, err)
	_, err = c.Get(ctx, &v1.GetRequest{TaskId: id})
	pipelinetest.Must(t, err)
	for _, r := range []*v1.ListRequest{{}, {Owner: "customer-7"}, {Owner: "customer-7", Labels: map[string]string{"shop": "a"}}} {
		_, err = c.List(ctx, r)
		pipelinetest.Must(t, err)
	}
	_, err = c.Shift(ctx, &v1.ShiftRequest{TaskId: id, By: durationpb.New(time.Hour)})
	pipelinetest.Must(t, err)
	_, err = c.Reschedule(ctx, &v1.RescheduleRequest{TaskId: id, Due: &v1.RescheduleRequest_DueIn{DueIn: durationpb.New(time.Minute)}})
	pipelinetest.Must(t, err)
	_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: id})
	pipelinetest.Must(t, err)
	dead := d.insert(t, 1, 0)[0]
	pipelinetest.Await(t, "the task to be dead", func() bool {
		read, err := c.Get(ctx, &v1.GetRequest{TaskId: dead})
		pipelinetest.Must(t, err)
		return read.GetTask().GetState() == v1.State_STATE_DEAD
	})
	_, err = c.Retry(ctx, &v1.RetryRequest{TaskId: dead})
	pipelinetest.Must(t, err)
}

func callRecurrences(t *testing.T, c duetimev1connect.RecurrenceServiceClient) {
	ctx := t.Context()
	_, err := c.Recur(ctx, &v1.RecurRequest{Owner: "customer-7", Name: "tea", Kind: "tea.time", Timetable: "every 4h from 2026-01-01T00:00:00Z"})
	pipelinetest.Must(t, err)
	_, err = c.ListRecurrences(ctx, &v1.ListRecurrencesRequest{})
	pipelinetest.Must(t, err)
	_, err = c.PauseRecurrence(ctx, &v1.PauseRecurrenceRequest{Owner: "customer-7", Name: "tea"})
	pipelinetest.Must(t, err)
	_, err = c.ResumeRecurrence(ctx, &v1.ResumeRecurrenceRequest{Owner: "customer-7", Name: "tea"})
	pipelinetest.Must(t, err)
	_, err = c.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: "customer-7", Name: "tea"})
	pipelinetest.Must(t, err)
}

func callOwners(t *testing.T, c duetimev1connect.OwnerServiceClient) {
	ctx := t.Context()
	_, err := c.AwaitDue(ctx, &v1.AwaitDueRequest{Owner: "customer-8"})
	pipelinetest.Must(t, err)
	_, err = c.BlockOwner(ctx, &v1.BlockOwnerRequest{Owner: "customer-8"})
	pipelinetest.Must(t, err)
	_, err = c.ListBlockedOwners(ctx, &v1.ListBlockedOwnersRequest{})
	pipelinetest.Must(t, err)
	_, err = c.UnblockOwner(ctx, &v1.UnblockOwnerRequest{Owner: "customer-8"})
	pipelinetest.Must(t, err)
}

func callOperations(t *testing.T, c duetimev1connect.OperationServiceClient) {
	ctx := t.Context()
	for _, f := range []*v1.Filter{{Owner: "customer-7"}, {Labels: map[string]string{"shop": "a"}}} {
		o := &v1.NewOperation{Verb: v1.Verb_VERB_SHIFT, By: durationpb.New(time.Hour), Filter: f}
		_, err := c.PreviewOperation(ctx, &v1.PreviewOperationRequest{Operation: o})
		pipelinetest.Must(t, err)
		begun, err := c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: o})
		pipelinetest.Must(t, err)
		id := begun.GetOperation().GetOperationId()
		_, err = c.GetOperation(ctx, &v1.GetOperationRequest{OperationId: id})
		pipelinetest.Must(t, err)
		if _, err = c.CancelOperation(ctx, &v1.CancelOperationRequest{OperationId: id}); err != nil && connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Error(err) // one that is over can't be cancelled
		}
	}
}
