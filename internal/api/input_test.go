package api_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// Input outside of the limits names its field, and changes nothing.
func TestFieldsAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, ""), t.Context()
	made := c.make(t, newTask("ann"))
	before := w.state(t)
	for field, change := range map[string]func(task *v1.NewTask){
		"task.kind":         func(task *v1.NewTask) { task.Kind = "a b" },
		"task.owner":        func(task *v1.NewTask) { task.Owner = strings.Repeat("x", 65) },
		"task.subject":      func(task *v1.NewTask) { task.Subject = strings.Repeat("x", 64) },
		"task.queue":        func(task *v1.NewTask) { task.Queue = "nobody's" },
		"task.max_attempts": func(task *v1.NewTask) { task.MaxAttempts = 1001 },
		"task.due":          func(task *v1.NewTask) { task.Due = nil },
		"task.due_at":       func(task *v1.NewTask) { task.Due = &v1.NewTask_DueAt{DueAt: &timestamppb.Timestamp{Nanos: -1}} },
		"task.due_in": func(task *v1.NewTask) {
			task.Due = &v1.NewTask_DueIn{DueIn: &durationpb.Duration{Seconds: math.MaxInt64}}
		},
		"task.payload":      func(task *v1.NewTask) { task.Payload = structpb.NewStringValue(strings.Repeat("x", 4095)) },
		"task.payload_json": func(task *v1.NewTask) { task.PayloadJson = "{}" },
		"task.task_id":      func(task *v1.NewTask) { task.TaskId = "7" },
		"task.window":       func(task *v1.NewTask) { task.Key, task.Window = "k", durationpb.New(time.Hour) },
		"task.max_wait":     func(task *v1.NewTask) { task.Key, task.MaxWait = "k", durationpb.New(time.Hour) },
		"task.labels":       func(task *v1.NewTask) { task.Labels = map[string]string{"Realm": "7"} },
		"task.key":          func(task *v1.NewTask) { task.Key, task.IdempotencyKey = "k", "k" },
		"task.key_mode":     func(task *v1.NewTask) { task.Key, task.KeyMode = "k", 99 },
	} {
		task := newTask("ann")
		change(task)
		_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
		wantField(t, err, connect.CodeInvalidArgument, field)
	}
	for _, k := range []struct {
		name, field string
		change      func(task *v1.NewTask)
	}{
		{"a mode without a key", "task.key", func(task *v1.NewTask) { task.KeyMode = v1.KeyMode_KEY_MODE_MOVE }},
		{"a long key", "task.key", func(task *v1.NewTask) { task.Key = strings.Repeat("x", 129) }},
		{"a long value of a label", "task.labels", func(task *v1.NewTask) { task.Labels = map[string]string{"realm": strings.Repeat("x", 65)} }},
		{"a long key of the call", "task.idempotency_key", func(task *v1.NewTask) { task.IdempotencyKey = strings.Repeat("x", 129) }},
	} {
		task := newTask("ann")
		k.change(task)
		_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
		t.Log(k.name)
		wantField(t, err, connect.CodeInvalidArgument, k.field)
	}
	for _, n := range []float64{1 << 54, math.Inf(1), math.NaN()} {
		task := newTask("ann")
		task.Payload = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(n)}})
		_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
		wantField(t, err, connect.CodeInvalidArgument, "task.payload")
	}
	unset := new(structpb.Value) // what TypeScript sends of a plain object
	for _, payload := range []*structpb.Value{
		unset, structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{unset}}),
		structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"id": unset}}),
	} {
		task := newTask("ann")
		task.Payload = payload
		_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
		wantField(t, err, connect.CodeInvalidArgument, "task.payload")
		_, err = c.Recur(ctx, &v1.RecurRequest{Owner: "ann", Name: "tea", Kind: "tea", Timetable: "cron UTC @daily", Payload: payload})
		wantField(t, err, connect.CodeInvalidArgument, "payload")
	}
	for _, text := range []string{"{", "{} {}", `"` + strings.Repeat("x", 4096) + `"`} {
		task := newTask("ann")
		task.Payload, task.PayloadJson = nil, text
		_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
		wantField(t, err, connect.CodeInvalidArgument, "task.payload_json")
		_, err = c.Recur(ctx, &v1.RecurRequest{Owner: "ann", Name: "tea", Kind: "tea", Timetable: "cron UTC @daily", PayloadJson: text})
		wantField(t, err, connect.CodeInvalidArgument, "payload_json")
	}
	_, err := c.Schedule(ctx, &v1.ScheduleRequest{})
	wantField(t, err, connect.CodeInvalidArgument, "task")
	_, err = c.ScheduleMany(ctx, &v1.ScheduleManyRequest{})
	wantField(t, err, connect.CodeInvalidArgument, "tasks")
	_, err = c.ScheduleMany(ctx, &v1.ScheduleManyRequest{Tasks: make([]*v1.NewTask, 1001)})
	wantField(t, err, connect.CodeInvalidArgument, "tasks")
	for _, by := range []*durationpb.Duration{nil, durationpb.New(11 * 365 * 24 * time.Hour)} {
		_, err = c.Shift(ctx, &v1.ShiftRequest{TaskId: made.GetTaskId(), By: by})
		wantField(t, err, connect.CodeInvalidArgument, "by")
	}
	_, err = c.Cancel(ctx, &v1.CancelRequest{TaskId: made.GetTaskId(), Version: -1})
	wantField(t, err, connect.CodeInvalidArgument, "version")
	_, err = c.Reschedule(ctx, &v1.RescheduleRequest{TaskId: made.GetTaskId()})
	wantField(t, err, connect.CodeInvalidArgument, "due")
	_, err = c.List(ctx, &v1.ListRequest{Limit: 1001})
	wantField(t, err, connect.CodeInvalidArgument, "limit")
	for _, filter := range []*v1.ListRequest{{Cursor: "x"}, {Cursor: "x", Owner: "ann"}, {Cursor: strings.Repeat("x", 999)}} {
		_, err = c.List(ctx, filter)
		wantField(t, err, connect.CodeInvalidArgument, "cursor")
	}
	for _, cursor := range []string{"x", "{}", "ann{}reward", strings.Repeat("x", 999)} {
		_, err = c.ListRecurrences(ctx, &v1.ListRecurrencesRequest{Cursor: cursor})
		wantField(t, err, connect.CodeInvalidArgument, "cursor")
	}
	_, err = c.List(ctx, &v1.ListRequest{State: 99})
	wantField(t, err, connect.CodeInvalidArgument, "state")
	if want := "state must be one of STATE_PENDING, STATE_DONE, STATE_CANCELLED, STATE_DEAD, and is 99"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a number of no state: got %v, want %s", err, want)
	}
	_, err = c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: &v1.NewOperation{Filter: &v1.Filter{All: true}}})
	wantField(t, err, connect.CodeInvalidArgument, "operation.verb")
	if !strings.Contains(err.Error(), "must be one of VERB_SHIFT, VERB_CANCEL") {
		t.Errorf("no verb: got %v", err)
	}
	for says, timetable := range map[string]string{
		`timetable must read "cron ZONE EXPRESSION", such as`:              "0 8 * *",
		`did you mean "cron UTC 0 8 * * *"?`:                               "cron 0 8 * * *",
		`timetable must read "every DURATION from TIME", such as`:          "every 4h",
		`timetable can't be read: zone must be a name of the tz database,`: "cron Berlin 0 8 * * *",
		`timetable can't be read: hour must be of 0 to 23`:                 "cron UTC 0 24 * * *",
	} {
		_, err = c.Recur(ctx, &v1.RecurRequest{Owner: "ann", Name: "tea", Kind: "tea", Timetable: timetable})
		wantField(t, err, connect.CodeInvalidArgument, "timetable")
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", timetable, err, says)
		}
	}
	_, err = c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: &v1.NewOperation{
		Verb: v1.Verb_VERB_REQUEUE, To: "nobody's", Filter: &v1.Filter{All: true},
	}})
	wantField(t, err, connect.CodeInvalidArgument, "operation.to")
	wantFilter := func(field string, filter *v1.Filter) {
		t.Helper()
		o := &v1.NewOperation{Verb: v1.Verb_VERB_CANCEL, Filter: filter}
		_, err := c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: o})
		wantField(t, err, connect.CodeInvalidArgument, "operation.filter."+field)
	}
	for field, filter := range map[string]*v1.Filter{
		"kind":         {Kind: strings.Repeat("x", 65)},
		"owner_prefix": {Owner: "ann", OwnerPrefix: "a"},
		"labels":       {Labels: map[string]string{"Realm": "7"}},
		"all":          {Owner: "ann", All: true},

		"exclude.kinds": {All: true, Exclude: &v1.Exclusion{Kinds: []string{""}}},
	} {
		wantFilter(field, filter)
	}
	for _, early := range []*timestamppb.Timestamp{timestamppb.New(time.Time{}), {Seconds: -1}} {
		for field, filter := range map[string]*v1.Filter{
			"due_before": {Kind: "order.expire", DueBefore: early}, "due_after": {Kind: "order.expire", DueAfter: early},
		} {
			wantFilter(field, filter)
		}
		_, err = c.List(ctx, &v1.ListRequest{Owner: "ann", DueBefore: early})
		wantField(t, err, connect.CodeInvalidArgument, "due_before")
		_, err = c.Reschedule(ctx, &v1.RescheduleRequest{TaskId: made.GetTaskId(), Due: &v1.RescheduleRequest_DueAt{DueAt: early}})
		wantField(t, err, connect.CodeInvalidArgument, "due_at")
		_, err = c.Recur(ctx, &v1.RecurRequest{
			Owner: "ann", Name: "tea", Kind: "tea", Timetable: "every 4h from 2026-01-01T00:00:00Z", Policy: &v1.Policy{End: early},
		})
		wantField(t, err, connect.CodeInvalidArgument, "policy.end")
	}
	_, err = c.GetOperation(ctx, &v1.GetOperationRequest{OperationId: "7"})
	wantField(t, err, connect.CodeInvalidArgument, "operation_id")
	if after := w.state(t); after != before {
		t.Errorf("refused calls changed %v to %v", before, after)
	}
}

// What curl sends and gets.
func TestPlainJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const path = "/duetime.v1.TaskService/"
	status, body := w.post(t, path+"Schedule", "application/json", "",
		`{"task": {"kind": "order.expire", "owner": "ann", "payload": {"order": 42}, "dueIn": "600s", "idempotency_key": "7"}}`)
	var made struct {
		Outcome string
		Task    struct {
			TaskID  string `json:"taskId"`
			Version string
			Payload struct{ Order int }
			DueAt   time.Time
		}
	}
	pipelinetest.Must(t, json.Unmarshal([]byte(body), &made))
	if status != http.StatusOK || made.Outcome != "OUTCOME_MADE" || made.Task.Version != "1" || made.Task.Payload.Order != 42 {
		t.Errorf("status %d, %s", status, body)
	}
	if in := time.Until(made.Task.DueAt); in < 5*time.Minute || in > 15*time.Minute {
		t.Errorf("due in %v", in)
	}
	before := w.state(t)
	for sent, want := range map[string]struct {
		status int
		says   string
	}{
		`{"task": {"kind": "order.expire", "ownr": "ann", "dueIn": "600s"}}`: {http.StatusBadRequest, `task.ownr is no field of NewTask: did you mean owner?`},
		`{"task": {"kind": "order.expire", "owner": "ann"}}`:                 {http.StatusBadRequest, "due_at or due_in"},
		`{"task": {`: {http.StatusBadRequest, "invalid_argument"},
		``:           {http.StatusBadRequest, "the body is empty"},
		`{"task": {"owner": "` + strings.Repeat("x", 1<<20) + `"}}`: {http.StatusTooManyRequests, "resource_exhausted"},
	} {
		status, body := w.post(t, path+"Schedule", "application/json", "", sent)
		if status != want.status || !strings.Contains(body, want.says) {
			t.Errorf("%.80s: status %d, %s", sent, status, body)
		}
	}
	if status, body := w.post(t, path+"Watch", "application/json", "", `{"taskId": "`+made.Task.TaskID+`"}`); status != http.StatusUnsupportedMediaType {
		t.Errorf("a plain call of Watch: status %d, %s", status, body)
	}
	status, body = w.post(t, path+"Cancel", "application/json; charset=utf-8", "", `{"taskId": "`+made.Task.TaskID+`", "version": 9}`)
	if status != http.StatusConflict || !strings.Contains(body, "STALE_VERSION") {
		t.Errorf("a stale version: status %d, %s", status, body)
	}
	if after := w.state(t); after != before {
		t.Errorf("refused calls changed %v to %v", before, after)
	}
}

// Payloads come back as they were sent.
func TestPayloads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	for _, text := range []string{"null", "true", `"a<b"`, "[]", "{}", "1.5", "-9007199254740991", `{"a":[1,{"b":null}],"ü":"\u0000"}`} {
		value := new(structpb.Value)
		pipelinetest.Must(t, value.UnmarshalJSON([]byte(text)))
		task := newTask("ann")
		task.Payload = value
		if got := c.make(t, task); !proto.Equal(got.GetPayload(), value) || got.GetPayloadJson() != "" {
			t.Errorf("%s came back as %v, %q", text, got.GetPayload(), got.GetPayloadJson())
		}
	}
	for _, text := range []string{"9007199254740993", `{"n":[18446744073709551615]}`, "1e400"} {
		task := newTask("ann")
		task.Payload, task.PayloadJson = nil, text
		if got := c.make(t, task); got.GetPayload() != nil || got.GetPayloadJson() != text {
			t.Errorf("%s came back as %v, %q", text, got.GetPayload(), got.GetPayloadJson())
		}
	}
	_, err := w.db().ExecContext(ctx, "UPDATE duetime_tasks SET payload = '{\"a\":'")
	pipelinetest.Must(t, err)
	page, err := c.List(ctx, &v1.ListRequest{Owner: "ann", Limit: 1})
	pipelinetest.Must(t, err)
	if got := page.GetTasks()[0]; got.GetPayloadJson() != `{"a":` {
		t.Errorf("a payload that is no JSON came back as %v, %q", got.GetPayload(), got.GetPayloadJson())
	}
}

// A task with an order key takes effect in order, and shows the key.
func TestOrderKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, ""), t.Context()
	march := newTask("ann")
	march.OrderKey = "city-17"
	made, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: march})
	pipelinetest.Must(t, err)
	got, err := c.Get(ctx, &v1.GetRequest{TaskId: made.GetTask().GetTaskId()})
	pipelinetest.Must(t, err)
	if key := got.GetTask().GetOrderKey(); key != "city-17" {
		t.Errorf("got the order key %q, want city-17", key)
	}
	march.OrderKey = strings.Repeat("x", task.MaxKey+1)
	_, err = c.Schedule(ctx, &v1.ScheduleRequest{Task: march})
	wantField(t, err, connect.CodeInvalidArgument, "task.order_key")
}
