package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// Clients refuse answers of more than 4 MiB. Ours end at 2 MiB, but for what frames the tasks in them.
const maxAnswer = 2<<20 + 16<<10

// manyValues is as much as a payload can hold, in as many values as it can have.
var manyValues = ones(2047)

// deep has n lists and objects in each other.
func deep(n int) string {
	text := "1"
	for i := range n {
		if i%2 == 0 {
			text = `{"a":` + text + "}"
		} else {
			text = "[" + text + "]"
		}
	}
	return text
}

func ones(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }

// patiently calls again what the server's limit of time has ended: nothing was changed, and a slow machine is no fault.
func patiently[Request, Answer any](t *testing.T, call func(context.Context, *Request) (*Answer, error), request *Request) *Answer {
	t.Helper()
	answer, err := call(t.Context(), request)
	for connect.CodeOf(err) == connect.CodeDeadlineExceeded {
		answer, err = call(t.Context(), request)
	}
	pipelinetest.Must(t, err)
	return answer
}

// large makes five times 200 tasks with a large payload, and returns the requests without the payloads.
func large(t *testing.T, c clients, owner string) []*v1.NewTask {
	t.Helper()
	var all []*v1.NewTask
	for range 5 {
		many := &v1.ScheduleManyRequest{}
		for range 200 {
			task := newTask(owner)
			task.Payload, task.PayloadJson, task.Key = nil, manyValues, fmt.Sprint("k", len(all))
			many.Tasks, all = append(many.Tasks, task), append(all, task)
		}
		made := patiently(t, c.ScheduleMany, many)
		if got := made.GetResults()[199].GetTask(); got.GetPayloadJson() != manyValues || got.GetPayload() != nil {
			t.Fatalf("a payload of many values came back as %.40v, %.40q", got.GetPayload(), got.GetPayloadJson())
		}
	}
	for _, task := range all {
		task.PayloadJson = ""
	}
	return all
}

// However much a page would hold, no answer is too large for its client, and no task is left out.
func TestPagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(t, "", connect.WithGRPC())
	large(t, c, "ann")
	for name, list := range map[string]*v1.ListRequest{"by owner": {Owner: "ann"}, "a walk": {Kind: "order.expire"}} {
		seen, largest := map[string]bool{}, 0
		for list.Limit = 1000; len(seen) == 0 || list.GetCursor() != ""; {
			page := patiently(t, c.List, list)
			if n := proto.Size(page); n > maxAnswer {
				t.Fatalf("%s: a page of %d bytes", name, n)
			}
			largest = max(largest, len(page.GetTasks()))
			for _, task := range page.GetTasks() {
				if seen[task.GetTaskId()] {
					t.Fatalf("%s: %s comes twice", name, task.GetTaskId())
				}
				seen[task.GetTaskId()] = true
			}
			list.Cursor = page.GetNextCursor()
		}
		if len(seen) != 1000 || largest < 300 {
			t.Errorf("%s: %d tasks, at most %d in a page", name, len(seen), largest)
		}
	}
}

// The tasks of an answer that would be too large have no payload: the call has changed something, and its client must learn so.
func TestManyResultsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(t, "", connect.WithGRPC())
	kept := patiently(t, c.ScheduleMany, &v1.ScheduleManyRequest{Tasks: large(t, c, "ann")})
	if n := proto.Size(kept); n > maxAnswer || len(kept.GetResults()) != 1000 {
		t.Fatalf("%d results of %d bytes", len(kept.GetResults()), n)
	}
	for _, r := range kept.GetResults() {
		if r.GetOutcome() != v1.Outcome_OUTCOME_KEPT || r.GetTask().GetTaskId() == "" || r.GetTask().GetPayloadJson() != "" {
			t.Fatalf("got %v", r)
		}
	}
}

// A page of recurrences ends as one of tasks does.
func TestPagesOfRecurrencesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.dial(t, "", connect.WithGRPC()), t.Context()
	const n = 530
	for i := range n {
		_, err := c.Recur(ctx, &v1.RecurRequest{
			Owner: "ann", Name: fmt.Sprintf("r%04d", i), Kind: "mail", PayloadJson: manyValues,
			Timetable: "every 4h from 2026-01-01T00:00:00Z",
		})
		pipelinetest.Must(t, err)
	}
	seen := 0
	for list := (&v1.ListRecurrencesRequest{Limit: 1000}); seen == 0 || list.GetCursor() != ""; {
		page := patiently(t, c.ListRecurrences, list)
		if size := proto.Size(page); size > maxAnswer {
			t.Fatalf("a page of %d bytes", size)
		}
		for _, r := range page.GetRecurrences() {
			if want := fmt.Sprintf("r%04d", seen); r.GetName() != want {
				t.Fatalf("got %s, want %s", r.GetName(), want)
			}
			seen++
		}
		list.Cursor = page.GetNextCursor()
	}
	if seen != n {
		t.Errorf("%d recurrences, want %d", seen, n)
	}
}

// A payload comes back as text where a value of it would be large or deep, or change a number.
func TestPayloadsComeBackAsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(t, "", connect.WithGRPC())
	for text, isText := range map[string]bool{
		ones(199):                false,
		ones(200):                true, // with the list itself 201 values
		deep(20):                 false,
		"1234567890.12345678901": true, // a double has 17 digits at most
		"[0.1,-0.05,1.50,5e-2,1E3,120e-1,0.0,-0,0e999]": false,
		"9007199254740991":                     false,
		"0.30000000000000004":                  false,
		"0.300000000000000040":                 false,
		"0.300000000000000041":                 true,
		"1e-400":                               true, // a double of 0
		"1e-99999999999999999999":              true,
		"1e300":                                true, // a whole number beyond 2^53
		`{"a":{"b":[0.12345678901234567890]}}`: true,
		deep(21):                               true,
		"[" + strings.Join(slices.Repeat([]string{deep(19)}, 9), ",") + "]": false, // each item begins at the same depth
	} {
		task := newTask("ann")
		task.Payload, task.PayloadJson = nil, text
		value := new(structpb.Value)
		pipelinetest.Must(t, value.UnmarshalJSON([]byte(text)))
		got := c.make(t, task)
		if isText && (got.GetPayloadJson() != text || got.GetPayload() != nil) || !isText && !proto.Equal(got.GetPayload(), value) {
			t.Errorf("%.60s came back as %.60v, %.60q", text, got.GetPayload(), got.GetPayloadJson())
		}
	}
}

// A list, of all owners or of one, and an operation with the same bounds choose the same tasks, also where an attempt has failed.
func TestBoundsAreOfTheDueTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := w.dial(t, "", connect.WithGRPC())
	calls.make(t, newTask("ann")) // due in an hour
	_, err := w.db().ExecContext(t.Context(), "UPDATE duetime_tasks SET run_at = due_at + 7200000, attempt = 1")
	pipelinetest.Must(t, err)
	between := timestamppb.New(time.Now().Add(2 * time.Hour))
	for _, c := range []struct {
		name string
		list *v1.ListRequest
		want int
	}{
		{"a walk before", &v1.ListRequest{DueBefore: between}, 1},
		{"a walk after", &v1.ListRequest{DueAfter: between}, 0},
		{"an owner's before", &v1.ListRequest{Owner: "ann", DueBefore: between}, 1},
		{"an owner's after", &v1.ListRequest{Owner: "ann", DueAfter: between}, 0},
	} {
		page, err := calls.List(t.Context(), c.list)
		pipelinetest.Must(t, err)
		filter := &v1.Filter{Owner: c.list.GetOwner(), DueAfter: c.list.GetDueAfter(), DueBefore: c.list.GetDueBefore()}
		preview, err := calls.PreviewOperation(t.Context(), &v1.PreviewOperationRequest{Operation: &v1.NewOperation{Verb: v1.Verb_VERB_CANCEL, Filter: filter}})
		pipelinetest.Must(t, err)
		if len(page.GetTasks()) != c.want || preview.GetMatched() != int64(c.want) {
			t.Errorf("%s: %d tasks are listed, %d would be cancelled, want %d", c.name, len(page.GetTasks()), preview.GetMatched(), c.want)
		}
	}
}

// A list and an operation leave the same tasks out.
func TestExclusions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := w.dial(t, "", connect.WithGRPC())
	for _, event := range []string{"", "siege", "feast"} {
		one := newTask("ann")
		if event != "" {
			one.Labels = map[string]string{"event": event}
		}
		calls.make(t, one)
	}
	for _, c := range []struct {
		exclude *v1.Exclusion
		want    int
	}{
		{nil, 3},
		{&v1.Exclusion{Labels: []string{"event=siege"}}, 2},
		{&v1.Exclusion{Labels: []string{"event=siege", "event=feast"}}, 1},
		{&v1.Exclusion{Kinds: []string{"other", "order.expire"}}, 0},
		{&v1.Exclusion{Kinds: []string{"other"}}, 3},
	} {
		for _, owner := range []string{"ann", ""} {
			page, err := calls.List(t.Context(), &v1.ListRequest{Owner: owner, Exclude: c.exclude})
			pipelinetest.Must(t, err)
			o := &v1.NewOperation{Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{Owner: owner, All: owner == "", Exclude: c.exclude}}
			preview, err := calls.PreviewOperation(t.Context(), &v1.PreviewOperationRequest{Operation: o})
			pipelinetest.Must(t, err)
			begun, err := calls.BeginOperation(t.Context(), &v1.BeginOperationRequest{Operation: o})
			pipelinetest.Must(t, err)
			if len(page.GetTasks()) != c.want || preview.GetMatched() != int64(c.want) {
				t.Errorf("without %v, owner %q: %d tasks are listed, %d would be cancelled, want %d",
					c.exclude, owner, len(page.GetTasks()), preview.GetMatched(), c.want)
			}
			if !proto.Equal(begun.GetOperation().GetFilter(), o.GetFilter()) {
				t.Errorf("the operation's filter is %v, want %v", begun.GetOperation().GetFilter(), o.GetFilter())
			}
		}
	}
	_, err := calls.List(t.Context(), &v1.ListRequest{Exclude: &v1.Exclusion{Labels: []string{"event"}}})
	wantField(t, err, connect.CodeInvalidArgument, "exclude.labels")
}

// Lists that may read all rows wait for each other, by whatever they choose. An owner's list waits for none.
func TestListsWithoutOwnerWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(t, "", connect.WithGRPC())
	labelled := newTask("ann")
	labelled.Labels = map[string]string{"realm": "7"}
	c.make(t, labelled)
	lists := map[string]func(ctx context.Context) error{
		"a walk": func(ctx context.Context) error { _, err := c.List(ctx, &v1.ListRequest{}); return err },
		"by label": func(ctx context.Context) error {
			_, err := c.List(ctx, &v1.ListRequest{Labels: labelled.GetLabels()})
			return err
		},
		"recurrences": func(ctx context.Context) error {
			_, err := c.ListRecurrences(ctx, &v1.ListRecurrencesRequest{Kind: "mail"})
			return err
		},
	}
	for name, list := range lists {
		if err := list(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	held := holdRecurrences(t, w, lists["recurrences"])
	waits := func(name string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return connect.CodeOf(lists[name](ctx)) == connect.CodeDeadlineExceeded
	}
	for _, name := range []string{"a walk", "by label"} {
		if !waits(name) {
			t.Errorf("%s: went on beside a list that reads all rows", name)
		}
	}
	if _, err := c.List(t.Context(), &v1.ListRequest{Owner: "ann"}); err != nil {
		t.Errorf("an owner's list waits: %v", err)
	}
	if len(held) > 0 {
		t.Fatal("the list that the others wait for has ended: nothing is proven")
	}
}

// holdRecurrences begins a call that reads recurrences, and returns once it waits for their table, which is locked. What the
// call answers comes through the channel.
func holdRecurrences(t *testing.T, w *world, list func(ctx context.Context) error) chan error {
	t.Helper()
	locking, err := w.db().Connx(t.Context())
	pipelinetest.Must(t, err)
	_, err = locking.ExecContext(t.Context(), "LOCK TABLES duetime_recurrences WRITE")
	pipelinetest.Must(t, err)
	answer, called := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(called)
		answer <- list(context.Background())
	}()
	t.Cleanup(func() {
		_, err := locking.ExecContext(context.Background(), "UNLOCK TABLES")
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, locking.Close())
		<-called
	})
	query := "SELECT COUNT(*) FROM " + pipelinetest.Connections(t) + " WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table%'"
	waiting := 0
	for deadline := time.Now().Add(minute); waiting == 0; {
		pipelinetest.Must(t, w.db().GetContext(t.Context(), &waiting, query))
		if len(answer) > 0 || time.Now().After(deadline) {
			t.Fatal("the call does not wait for the table")
		}
	}
	return answer
}
