package api_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// eachTransport runs a case by gRPC, gRPC-Web and JSON on one database; each has an owner of its own.
func eachTransport(t *testing.T, run func(t *testing.T, w *world, c clients, owner string)) {
	t.Helper()
	w := newWorld(t)
	for _, name := range slices.Sorted(maps.Keys(transports)) {
		t.Run(name, func(t *testing.T) { run(t, w, w.dial(t, "", transports[name]...), "owner of "+name) })
	}
}

func TestScheduleGetList(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		wanted := newTask(owner)
		wanted.Subject, wanted.Queue, wanted.MaxAttempts = "order 42", "reports", 3
		wanted.Labels = map[string]string{"realm": "7"}
		made, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: wanted})
		pipelinetest.Must(t, err)
		task := made.GetTask()
		if made.GetOutcome() != v1.Outcome_OUTCOME_MADE || task.GetVersion() != 1 || task.GetState() != v1.State_STATE_PENDING {
			t.Errorf("got %v", made)
		}
		if !proto.Equal(task.GetPayload(), wanted.GetPayload()) || task.GetQueue() != "reports" || task.GetMaxAttempts() != 3 {
			t.Errorf("got %v of %v", task, wanted)
		}
		got, err := c.Get(ctx, &v1.GetRequest{TaskId: task.GetTaskId()})
		pipelinetest.Must(t, err)
		if task.Labels = wanted.GetLabels(); !proto.Equal(got.GetTask(), task) {
			t.Errorf("got %v, want %v", got.GetTask(), task)
		}
		later := newTask(owner)
		later.Due = &v1.NewTask_DueAt{DueAt: timestamppb.New(time.Now().Add(2 * time.Hour))}
		second := c.make(t, later)

		page, err := c.List(ctx, &v1.ListRequest{Owner: owner, Limit: 1})
		pipelinetest.Must(t, err)
		if len(page.GetTasks()) != 1 || page.GetTasks()[0].GetTaskId() != task.GetTaskId() || page.GetNextCursor() == "" {
			t.Errorf("got the page %v", page)
		}
		page, err = c.List(ctx, &v1.ListRequest{Owner: owner, Limit: 1, Cursor: page.GetNextCursor()})
		pipelinetest.Must(t, err)
		if len(page.GetTasks()) != 1 || page.GetTasks()[0].GetTaskId() != second.GetTaskId() || page.GetNextCursor() != "" {
			t.Errorf("got the second page %v", page)
		}
		page, err = c.List(ctx, &v1.ListRequest{Labels: wanted.GetLabels(), Owner: owner, State: v1.State_STATE_PENDING})
		pipelinetest.Must(t, err)
		if len(page.GetTasks()) != 1 {
			t.Errorf("got by label %v", page)
		}
		page, err = c.List(ctx, &v1.ListRequest{Subject: "order 42"})
		pipelinetest.Must(t, err)
		if len(page.GetTasks()) == 0 {
			t.Error("a walk found nothing")
		}
	})
}

func TestScheduleMany(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx := t.Context()
		many := &v1.ScheduleManyRequest{}
		for range 20 {
			many.Tasks = append(many.Tasks, newTask(owner))
		}
		made, err := c.ScheduleMany(ctx, many)
		pipelinetest.Must(t, err)
		if len(made.GetResults()) != 20 || made.GetResults()[19].GetOutcome() != v1.Outcome_OUTCOME_MADE {
			t.Errorf("got %d results", len(made.GetResults()))
		}
		before := w.state(t)
		many.Tasks[7].Owner = "{}"
		_, err = c.ScheduleMany(ctx, many)
		wantField(t, err, connect.CodeInvalidArgument, "tasks[7].owner")
		many.Tasks[7].Owner, many.Tasks[7].TaskId = "somebody", made.GetResults()[0].GetTask().GetTaskId()
		_, err = c.ScheduleMany(ctx, many)
		wantTaken(t, err, "tasks[7].task_id")
		many.Tasks[3].TaskId, many.Tasks[7] = uuid.NewString(), newTask(owner)
		many.Tasks[7].TaskId, many.Tasks[7].Payload = many.GetTasks()[3].GetTaskId(), structpb.NewStringValue("another")
		_, err = c.ScheduleMany(ctx, many)
		wantTaken(t, err, "tasks[7].task_id")
		if after := w.state(t); after != before {
			t.Errorf("refused calls changed %v to %v", before, after)
		}
	})
}

// A repeated id is the same task; with another payload it is refused, unless the task's key explains the difference.
func TestTaskIDs(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx, other := t.Context(), structpb.NewStringValue("another")
		for name, change := range map[string]func(task *v1.NewTask){
			"plain": func(*v1.NewTask) {}, "label": func(task *v1.NewTask) { task.Labels = map[string]string{"realm": "7"} },
			"once": func(task *v1.NewTask) { task.IdempotencyKey = "call" },
		} {
			wanted := newTask(owner)
			wanted.TaskId = uuid.NewString()
			change(wanted)
			first := c.make(t, wanted)
			if again := c.make(t, wanted); !proto.Equal(again, first) {
				t.Errorf("%s: %v became %v", name, first, again)
			}
			before := w.state(t)
			wanted.Payload = other
			_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: wanted})
			wantTaken(t, err, "task.task_id")
			if after := w.state(t); after != before {
				t.Errorf("%s: a refused call changed %v to %v", name, before, after)
			}
		}
		keyed, later := newTask(owner), newTask(owner)
		keyed.TaskId, keyed.Key = uuid.NewString(), "document"
		later.Payload, later.Key, later.KeyMode = other, "document", v1.KeyMode_KEY_MODE_REPLACE
		first, replaced := c.make(t, keyed), c.make(t, later)
		if again := c.make(t, keyed); again.GetTaskId() != first.GetTaskId() || !proto.Equal(again, replaced) {
			t.Errorf("repeated after a later one has replaced it: %v, want %v", again, replaced)
		}
	})
}

func TestChangesAndVersions(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx := t.Context()
		id := c.make(t, newTask(owner)).GetTaskId()
		moment := timestamppb.New(time.Now().Add(3 * time.Hour).Truncate(time.Millisecond))
		moved, err := c.Reschedule(ctx, &v1.RescheduleRequest{
			TaskId: id, Version: 1, Due: &v1.RescheduleRequest_DueAt{DueAt: moment},
		})
		pipelinetest.Must(t, err)
		if moved.GetTask().GetVersion() != 2 || !proto.Equal(moved.GetTask().GetDueAt(), moment) {
			t.Errorf("got %v", moved)
		}
		shifted, err := c.Shift(ctx, &v1.ShiftRequest{TaskId: id, By: durationpb.New(-time.Hour)})
		pipelinetest.Must(t, err)
		if got := moment.AsTime().Sub(shifted.GetTask().GetDueAt().AsTime()); got != time.Hour {
			t.Errorf("shifted by %v", got)
		}

		before := w.state(t)
		_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: id, Version: 2})
		wantCode(t, err, connect.CodeAborted, "STALE_VERSION")
		if got := reasonOf(t, err).GetMetadata()["version"]; got != "3" {
			t.Errorf("the conflict names version %q, want 3", got)
		}
		_, err = c.Shift(ctx, &v1.ShiftRequest{TaskId: id, Version: 9, By: durationpb.New(time.Hour)})
		wantCode(t, err, connect.CodeAborted, "STALE_VERSION")
		_, err = c.Reschedule(ctx, &v1.RescheduleRequest{
			TaskId: id, Version: 1, Due: &v1.RescheduleRequest_DueIn{DueIn: durationpb.New(0)},
		})
		wantCode(t, err, connect.CodeAborted, "STALE_VERSION")
		_, err = c.Retry(ctx, &v1.RetryRequest{TaskId: id})
		wantCode(t, err, connect.CodeFailedPrecondition, "NOT_DEAD")
		if after := w.state(t); after != before {
			t.Errorf("refused changes changed %v to %v", before, after)
		}

		_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: id, Version: 3})
		pipelinetest.Must(t, err)
		_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: id, Version: 3})
		wantCode(t, err, connect.CodeFailedPrecondition, "ALREADY_CANCELLED")
		_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: "0192d3a0-0000-7000-8000-000000000000"})
		wantCode(t, err, connect.CodeNotFound, "NO_TASK")
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, w *world, c clients, owner string) {
		ctx := t.Context()
		id := c.make(t, newTask(owner)).GetTaskId()
		w.kill(t, id)
		_, err := c.Shift(ctx, &v1.ShiftRequest{TaskId: id, By: durationpb.New(time.Hour)})
		wantCode(t, err, connect.CodeFailedPrecondition, "ALREADY_DEAD")
		_, err = c.Retry(ctx, &v1.RetryRequest{TaskId: id, Version: 1})
		wantCode(t, err, connect.CodeAborted, "STALE_VERSION")
		if version := reasonOf(t, err).GetMetadata()["version"]; version != "2" {
			t.Errorf("the error names version %q, want 2", version)
		}
		retried, err := c.Retry(ctx, &v1.RetryRequest{TaskId: id, Version: 2})
		pipelinetest.Must(t, err)
		if retried.GetTask().GetState() != v1.State_STATE_PENDING || retried.GetTask().GetVersion() != 3 {
			t.Errorf("got %v", retried)
		}
		var actor string
		const query = "SELECT actor FROM duetime_history WHERE event = 'retried' ORDER BY seq DESC LIMIT 1"
		pipelinetest.Must(t, w.db().GetContext(ctx, &actor, query))
		if actor != "loopback@api" {
			t.Errorf("the history names %q", actor)
		}
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		id := c.make(t, newTask(owner)).GetTaskId()
		stream, err := c.Watch(ctx, &v1.WatchRequest{TaskId: id})
		pipelinetest.Must(t, err)
		next := func(version int64, state v1.State) {
			t.Helper()
			if !stream.Receive() {
				t.Fatalf("the stream ended: %v", stream.Err())
			}
			if got := stream.Msg().GetTask(); got.GetVersion() != version || got.GetState() != state {
				t.Errorf("got %v, want version %d in %v", got, version, state)
			}
		}
		next(1, v1.State_STATE_PENDING)
		awaitLooks(t, c, owner) // which send nothing where nothing has changed
		_, err = c.Shift(ctx, &v1.ShiftRequest{TaskId: id, By: durationpb.New(time.Hour)})
		pipelinetest.Must(t, err)
		next(2, v1.State_STATE_PENDING)
		_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: id})
		pipelinetest.Must(t, err)
		next(3, v1.State_STATE_CANCELLED)
		if stream.Receive() || stream.Err() != nil {
			t.Errorf("after the end: %v, %v", stream.Msg(), stream.Err())
		}
		stream, err = c.Watch(ctx, &v1.WatchRequest{TaskId: id, Version: 3})
		pipelinetest.Must(t, err)
		if stream.Receive() || stream.Err() != nil {
			t.Errorf("a version that was seen is sent: %v, %v", stream.Msg(), stream.Err())
		}
	})
}

// awaitLooks returns after all watched tasks were looked at, twice.
func awaitLooks(t *testing.T, c clients, owner string) {
	t.Helper()
	other := c.make(t, newTask(owner)).GetTaskId()
	stream, err := c.Watch(t.Context(), &v1.WatchRequest{TaskId: other})
	pipelinetest.Must(t, err)
	for range 2 {
		if !stream.Receive() {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
		_, err = c.Shift(t.Context(), &v1.ShiftRequest{TaskId: other, By: durationpb.New(time.Hour)})
		pipelinetest.Must(t, err)
	}
	if !stream.Receive() {
		t.Fatalf("the stream ended: %v", stream.Err())
	}
	pipelinetest.Must(t, stream.Close())
}

func TestRecurrences(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		wanted := &v1.RecurRequest{
			Owner: owner, Name: "breakfast", Kind: "pet.feed", Timetable: "cron Asia/Shanghai 0 8 * * *",
			Payload: newTask(owner).GetPayload(), Policy: &v1.Policy{CatchUp: "all 3", Jitter: durationpb.New(time.Minute), Revision: 2},
		}
		made, err := c.Recur(ctx, wanted)
		pipelinetest.Must(t, err)
		r := made.GetRecurrence()
		if r.GetState() != v1.RecurrenceState_RECURRENCE_STATE_ACTIVE || r.GetPolicy().GetCatchUp() != "all 3" || r.GetNewestTaskId() == "" {
			t.Errorf("got %v", r)
		}
		same, err := c.Recur(ctx, wanted)
		pipelinetest.Must(t, err)
		if !proto.Equal(same.GetRecurrence(), r) {
			t.Errorf("the same definition changed %v to %v", r, same.GetRecurrence())
		}
		wanted.Policy.Revision = 1
		wanted.Timetable = "cron Asia/Shanghai 0 9 * * *"
		same, err = c.Recur(ctx, wanted)
		pipelinetest.Must(t, err)
		if !proto.Equal(same.GetRecurrence(), r) || r.GetPolicy().GetRevision() != 2 {
			t.Errorf("an older definition changed %v to %v", r, same.GetRecurrence())
		}
		paused, err := c.PauseRecurrence(ctx, &v1.PauseRecurrenceRequest{Owner: owner, Name: "breakfast", Note: "holidays"})
		pipelinetest.Must(t, err)
		if got := paused.GetRecurrence(); got.GetState() != v1.RecurrenceState_RECURRENCE_STATE_PAUSED || got.GetNote() != "holidays" {
			t.Errorf("got %v", got)
		}
		page, err := c.ListRecurrences(ctx, &v1.ListRecurrencesRequest{Owner: owner, State: v1.RecurrenceState_RECURRENCE_STATE_PAUSED})
		pipelinetest.Must(t, err)
		if len(page.GetRecurrences()) != 1 {
			t.Errorf("got %v", page)
		}
		resumed, err := c.ResumeRecurrence(ctx, &v1.ResumeRecurrenceRequest{Owner: owner, Name: "breakfast"})
		pipelinetest.Must(t, err)
		if resumed.GetRecurrence().GetState() != v1.RecurrenceState_RECURRENCE_STATE_ACTIVE {
			t.Errorf("got %v", resumed)
		}
		_, err = c.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: owner, Name: "breakfast"})
		pipelinetest.Must(t, err)
		_, err = c.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: owner, Name: "breakfast"})
		wantCode(t, err, connect.CodeNotFound, "NO_RECURRENCE")
		wanted.Timetable = "cron Europe/Berlin 0 25 * * *"
		_, err = c.Recur(ctx, wanted)
		wantField(t, err, connect.CodeInvalidArgument, "timetable")
		wanted.Policy.Overlap = "sometimes"
		wanted.Timetable = "every 4h from 2026-01-01T00:00:00Z"
		_, err = c.Recur(ctx, wanted)
		wantField(t, err, connect.CodeInvalidArgument, "policy.overlap")
	})
}

func TestOperations(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		for range 12 {
			c.make(t, newTask(owner))
		}
		o := &v1.NewOperation{
			Verb: v1.Verb_VERB_SHIFT, By: durationpb.New(2 * time.Hour), Filter: &v1.Filter{Owner: owner, Kind: "order.expire"},
		}
		preview, err := c.PreviewOperation(ctx, &v1.PreviewOperationRequest{Operation: o})
		pipelinetest.Must(t, err)
		if preview.GetMatched() != 12 || len(preview.GetSample()) != 10 {
			t.Errorf("got %d matched, a sample of %d", preview.GetMatched(), len(preview.GetSample()))
		}
		o.Matched = preview.GetMatched()
		begun, err := c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: o})
		pipelinetest.Must(t, err)
		id := begun.GetOperation().GetOperationId()
		got, err := c.GetOperation(ctx, &v1.GetOperationRequest{OperationId: id})
		pipelinetest.Must(t, err)
		if !proto.Equal(got.GetOperation(), begun.GetOperation()) || got.GetOperation().GetActor() != "loopback@api" {
			t.Errorf("got %v, begun was %v", got, begun)
		}
		ended, err := c.CancelOperation(ctx, &v1.CancelOperationRequest{OperationId: id})
		pipelinetest.Must(t, err)
		if ended.GetOperation().GetState() != v1.OperationState_OPERATION_STATE_CANCELLED {
			t.Errorf("got %v", ended)
		}
		_, err = c.CancelOperation(ctx, &v1.CancelOperationRequest{OperationId: id})
		wantCode(t, err, connect.CodeFailedPrecondition, "OPERATION_OVER")
		o.Recurrences = true
		begun, err = c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: o})
		if pipelinetest.Must(t, err); !begun.GetOperation().GetRecurrences() {
			t.Errorf("recurrences too: got %v", begun)
		}
		o.Filter = nil
		_, err = c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: o})
		wantField(t, err, connect.CodeInvalidArgument, "operation.filter")
	})
}

// The same key is the same task: whatever became of it by idempotency_key, while it is pending by key.
func TestKeys(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, _ *world, c clients, owner string) {
		ctx := t.Context()
		schedule := func(change func(task *v1.NewTask)) *v1.ScheduleResponse {
			t.Helper()
			task := newTask(owner)
			change(task)
			made, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
			pipelinetest.Must(t, err)
			return made
		}
		once := func(task *v1.NewTask) { task.IdempotencyKey = "call 7" }
		first := schedule(once)
		_, err := c.Cancel(ctx, &v1.CancelRequest{TaskId: first.GetTask().GetTaskId()})
		pipelinetest.Must(t, err)
		second := schedule(once)
		if second.GetTask().GetTaskId() != first.GetTask().GetTaskId() || second.GetOutcome() != v1.Outcome_OUTCOME_KEPT ||
			second.GetTask().GetState() != v1.State_STATE_CANCELLED {
			t.Errorf("the repeated call answers %v", second)
		}
		other := newTask(owner)
		once(other)
		other.Payload = structpb.NewStringValue("another")
		_, err = c.Schedule(ctx, &v1.ScheduleRequest{Task: other})
		wantCode(t, err, connect.CodeAlreadyExists, "IDEMPOTENCY_KEY_TAKEN")
		_, err = c.ScheduleMany(ctx, &v1.ScheduleManyRequest{Tasks: []*v1.NewTask{newTask(owner), other}})
		wantCode(t, err, connect.CodeAlreadyExists, "IDEMPOTENCY_KEY_TAKEN")
		if field := reasonOf(t, err).GetMetadata()["field"]; field != "tasks[1].idempotency_key" {
			t.Errorf("the error names %q", field)
		}

		for i, c := range []struct {
			mode v1.KeyMode
			want v1.Outcome
		}{
			{v1.KeyMode_KEY_MODE_UNSPECIFIED, v1.Outcome_OUTCOME_KEPT},
			{v1.KeyMode_KEY_MODE_KEEP, v1.Outcome_OUTCOME_KEPT},
			{v1.KeyMode_KEY_MODE_MOVE, v1.Outcome_OUTCOME_MOVED},
			{v1.KeyMode_KEY_MODE_REPLACE, v1.Outcome_OUTCOME_REPLACED},
			{v1.KeyMode_KEY_MODE_WINDOW, v1.Outcome_OUTCOME_KEPT},
		} {
			keyed := func(task *v1.NewTask) {
				task.Key, task.KeyMode = fmt.Sprint("document ", i), c.mode
				if c.mode == v1.KeyMode_KEY_MODE_WINDOW {
					task.Window = durationpb.New(87600 * time.Hour)
				}
			}
			first, second := schedule(keyed), schedule(keyed)
			if first.GetTask().GetTaskId() != second.GetTask().GetTaskId() || second.GetOutcome() != c.want {
				t.Errorf("%v: %v became %v", c.mode, first, second)
			}
		}
	})
}
