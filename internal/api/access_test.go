package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// tokenOf is the token of a caller of tests.
func tokenOf(name string) string { return name + "-0123456789abcdef" }

func callerOf(name string, role api.Role, owners, kinds []string) api.Token {
	return api.Token{Name: name, Role: role, Token: tokenOf(name), Owners: owners, Kinds: kinds}
}

// procedures returns the paths of all methods that the files describe.
func procedures() []string {
	var paths []string
	protoregistry.GlobalFiles.RangeFilesByPackage("duetime.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for k := range service.Methods().Len() {
				paths = append(paths, fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(k).Name()))
			}
		}
		return true
	})
	slices.Sort(paths)
	return paths
}

// A role may call what its table says, and what the roles before it may; nobody without a token may call anything.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		callerOf("reader", api.RoleRead, nil, nil), callerOf("shop", api.RoleSchedule, nil, nil), callerOf("admin", api.RoleOperate, nil, nil))
	reads := []string{"Get", "List", "Watch", "ListRecurrences", "ListBlockedOwners", "AwaitDue", "GetGroup", "ListGroups", "ListPauses", "ListQueues"}
	operates := []string{
		"Retry", "PreviewOperation", "BeginOperation", "GetOperation", "ListOperations", "CancelOperation", "BlockOwner", "UnblockOwner",
		"Pause", "Resume", "AddQueue", "RetireQueue",
	}
	for _, path := range procedures() {
		method := path[strings.LastIndexByte(path, '/')+1:]
		needed := 2
		for _, name := range reads {
			if method == name {
				needed = 1
			}
		}
		for _, name := range operates {
			if method == name {
				needed = 3
			}
		}
		contentType := "application/json"
		if method == "Watch" {
			contentType = "application/connect+json"
		}
		for rank, token := range []string{"", tokenOf("reader"), tokenOf("shop"), tokenOf("admin")} {
			status, body := w.post(t, path, contentType, token, "\x00\x00\x00\x00\x02{}")
			refused := status == http.StatusForbidden || status == http.StatusUnauthorized ||
				strings.Contains(body, "permission_denied") || strings.Contains(body, "unauthenticated")
			if refused != (rank < needed) {
				t.Errorf("%s by %q: status %d, %s", path, token, status, body)
			}
		}
	}
	if n := len(procedures()); n < 19 {
		t.Errorf("only %d methods were called", n)
	}
	for _, token := range []string{"wrong", tokenOf("reader") + "x", ""} {
		_, err := w.dial(t, token, connect.WithGRPC()).List(t.Context(), &v1.ListRequest{})
		wantCode(t, err, connect.CodeUnauthenticated, "")
	}
}

// scopeCase is a call about an owner and a kind.
type scopeCase struct {
	name string
	call func(ctx context.Context, c clients, owner, kind string) error
}

var scopeCases = []scopeCase{
	{"Schedule", func(ctx context.Context, c clients, owner, kind string) error {
		task := newTask(owner)
		task.Kind = kind
		_, err := c.Schedule(ctx, &v1.ScheduleRequest{Task: task})
		return err
	}},
	{"List", func(ctx context.Context, c clients, owner, kind string) error {
		_, err := c.List(ctx, &v1.ListRequest{Owner: owner, Kind: kind})
		return err
	}},
	{"Recur", func(ctx context.Context, c clients, owner, kind string) error {
		_, err := c.Recur(ctx, &v1.RecurRequest{
			Owner: owner, Kind: kind, Name: kind, Timetable: "every 4h from 2026-01-01T00:00:00Z",
		})
		return err
	}},
	{"ListRecurrences", func(ctx context.Context, c clients, owner, kind string) error {
		_, err := c.ListRecurrences(ctx, &v1.ListRecurrencesRequest{Owner: owner, Kind: kind})
		return err
	}},
	{"AwaitDue", func(ctx context.Context, c clients, owner, kind string) error {
		_, err := c.AwaitDue(ctx, &v1.AwaitDueRequest{Owner: owner, Kind: kind})
		return err
	}},
	{"PreviewOperation", func(ctx context.Context, c clients, owner, kind string) error {
		_, err := c.PreviewOperation(ctx, &v1.PreviewOperationRequest{Operation: &v1.NewOperation{
			Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{Owner: owner, Kind: kind, All: owner+kind == ""},
		}})
		return err
	}},
	{"PreviewOperation by prefix", func(ctx context.Context, c clients, owner, kind string) error {
		_, err := c.PreviewOperation(ctx, &v1.PreviewOperationRequest{Operation: &v1.NewOperation{
			Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{OwnerPrefix: owner, Kind: kind, All: owner+kind == ""},
		}})
		return err
	}},
}

// A token's scope is what its calls may name.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		callerOf("all", api.RoleOperate, nil, nil),
		callerOf("owners", api.RoleOperate, []string{"shop-*", "desk"}, nil),
		callerOf("kinds", api.RoleOperate, nil, []string{"order.*", "mail"}),
		callerOf("both", api.RoleOperate, []string{"shop-*", "desk"}, []string{"order.*", "mail"}))
	callers := map[string]clients{}
	for _, name := range []string{"all", "owners", "kinds", "both"} {
		callers[name] = w.dial(t, tokenOf(name), connect.WithGRPC())
	}
	for _, owner := range []string{"shop-1", "desk", "desk2", "ann", ""} {
		for _, kind := range []string{"order.expire", "mail", "mails", "pet", ""} {
			ownerIn := strings.HasPrefix(owner, "shop-") || owner == "desk"
			kindIn := strings.HasPrefix(kind, "order.") || kind == "mail"
			for _, c := range scopeCases {
				for name, want := range map[string]bool{"all": true, "owners": ownerIn, "kinds": kindIn, "both": ownerIn && kindIn} {
					if strings.HasSuffix(c.name, "prefix") && owner == "desk" && (name == "owners" || name == "both") {
						want = false // also of desk2
					}
					err := c.call(t.Context(), callers[name], owner, kind)
					if refused := reasonOf(t, err).GetReason() == "OUT_OF_SCOPE"; refused == want && connect.CodeOf(err) != connect.CodeInvalidArgument {
						t.Errorf("%s of owner %q, kind %q by %s: %v", c.name, owner, kind, name, err)
					} else if err != nil && want && owner != "" && kind != "" {
						t.Errorf("%s of owner %q, kind %q by %s: %v", c.name, owner, kind, name, err)
					}
				}
			}
		}
	}
}

// A task outside of the scope answers as one that is not there, and stays as it is.
func TestHiddenTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		callerOf("all", api.RoleOperate, nil, nil), callerOf("owners", api.RoleOperate, []string{"shop-*"}, nil),
		callerOf("kinds", api.RoleOperate, nil, []string{"mail"}))
	ctx := t.Context()
	all := w.dial(t, tokenOf("all"))
	pending, ended, dead := all.make(t, newTask("ann")).GetTaskId(), all.make(t, newTask("ann")).GetTaskId(), all.make(t, newTask("ann")).GetTaskId()
	_, err := all.Cancel(ctx, &v1.CancelRequest{TaskId: ended})
	pipelinetest.Must(t, err)
	w.kill(t, dead)
	_, err = all.Recur(ctx, &v1.RecurRequest{Owner: "ann", Name: "tea", Kind: "order.tea", Timetable: "every 4h from 2026-01-01T00:00:00Z"})
	pipelinetest.Must(t, err)
	made, err := all.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: &v1.NewOperation{
		Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{Owner: "ann"},
	}})
	pipelinetest.Must(t, err)
	operation := made.GetOperation().GetOperationId()

	before := w.state(t)
	for _, name := range []string{"owners", "kinds"} {
		c := w.dial(t, tokenOf(name))
		for _, id := range []string{pending, ended, dead, "0192d3a0-0000-7000-8000-000000000000"} {
			for what, call := range map[string]func() error{
				"Get":    func() error { _, err := c.Get(ctx, &v1.GetRequest{TaskId: id}); return err },
				"Cancel": func() error { _, err := c.Cancel(ctx, &v1.CancelRequest{TaskId: id}); return err },
				"Retry":  func() error { _, err := c.Retry(ctx, &v1.RetryRequest{TaskId: id}); return err },
				"Shift": func() error {
					_, err := c.Shift(ctx, &v1.ShiftRequest{TaskId: id, By: durationpb.New(time.Hour)})
					return err
				},
				"Move":    func() error { _, err := c.Reschedule(ctx, soon(id)); return err },
				"Version": func() error { _, err := c.Cancel(ctx, &v1.CancelRequest{TaskId: id, Version: 9}); return err },
				"Watch": func() error {
					stream, err := c.Watch(ctx, &v1.WatchRequest{TaskId: id})
					pipelinetest.Must(t, err)
					stream.Receive()
					return stream.Err()
				},
			} {
				if err := call(); reasonOf(t, err).GetReason() != "NO_TASK" {
					t.Errorf("%s of %s by %s: %v", what, id, name, err)
				}
			}
		}
		for what, call := range map[string]func() error{
			"GetOperation": func() error {
				_, err := c.GetOperation(ctx, &v1.GetOperationRequest{OperationId: operation})
				return err
			},
			"CancelOperation": func() error {
				_, err := c.CancelOperation(ctx, &v1.CancelOperationRequest{OperationId: operation})
				return err
			},
		} {
			if err := call(); reasonOf(t, err).GetReason() != "NO_OPERATION" {
				t.Errorf("%s by %s: %v", what, name, err)
			}
		}
	}
	_, err = w.dial(t, tokenOf("owners")).StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: "ann", Name: "tea"})
	wantCode(t, err, connect.CodePermissionDenied, "OUT_OF_SCOPE")
	kinds := w.dial(t, tokenOf("kinds"))
	_, err = kinds.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: "ann", Name: "tea"})
	wantCode(t, err, connect.CodeNotFound, "NO_RECURRENCE")
	_, err = kinds.Recur(ctx, &v1.RecurRequest{Owner: "ann", Name: "tea", Kind: "mail", Timetable: "every 4h from 2026-01-01T00:00:00Z"})
	wantCode(t, err, connect.CodeAlreadyExists, "NAME_TAKEN")
	taken := newTask("ann")
	taken.Kind, taken.TaskId = "mail", pending
	_, err = kinds.Schedule(ctx, &v1.ScheduleRequest{Task: taken})
	wantCode(t, err, connect.CodeAlreadyExists, "ID_TAKEN")
	if after := w.state(t); after != before {
		t.Errorf("callers without rights changed %v to %v", before, after)
	}
}

// A recurrence outside of the scope keeps its name in any state: nobody else takes it over.
func TestHiddenRecurrences(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("all", api.RoleOperate, nil, nil), callerOf("kinds", api.RoleSchedule, nil, []string{"mail"}))
	ctx, all, kinds := t.Context(), w.dial(t, tokenOf("all")), w.dial(t, tokenOf("kinds"))
	of := func(kind, name string) *v1.RecurRequest {
		return &v1.RecurRequest{Owner: "ann", Name: name, Kind: kind, Timetable: "every 4h from 2026-01-01T00:00:00Z"}
	}
	for _, name := range []string{"active", "paused", "stopped", "over"} {
		_, err := all.Recur(ctx, of("order.tea", name))
		pipelinetest.Must(t, err)
	}
	_, err := all.PauseRecurrence(ctx, &v1.PauseRecurrenceRequest{Owner: "ann", Name: "paused"})
	pipelinetest.Must(t, err)
	_, err = all.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: "ann", Name: "stopped"})
	pipelinetest.Must(t, err)
	_, err = w.db().ExecContext(ctx, "UPDATE duetime_recurrences SET state = 3 WHERE name = 'over'")
	pipelinetest.Must(t, err)
	before := w.state(t)
	for _, name := range []string{"active", "paused", "stopped", "over"} {
		t.Log(name)
		_, err = kinds.Recur(ctx, of("mail", name))
		wantCode(t, err, connect.CodeAlreadyExists, "NAME_TAKEN")
	}
	if after := w.state(t); after != before {
		t.Errorf("a caller without the kind changed %v to %v", before, after)
	}
	_, err = kinds.Recur(ctx, of("mail", "post"))
	pipelinetest.Must(t, err)
	_, err = kinds.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: "ann", Name: "post"})
	pipelinetest.Must(t, err)
	_, err = kinds.Recur(ctx, of("mail", "post"))
	pipelinetest.Must(t, err)
}

// A recurrence that got another kind while its task was due may have a task of the old kind, which is not its caller's to cancel.
func TestRecurrenceOfTwoKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("all", api.RoleOperate, nil, nil), callerOf("kinds", api.RoleSchedule, nil, []string{"mail"}))
	ctx, all, kinds := t.Context(), w.dial(t, tokenOf("all")), w.dial(t, tokenOf("kinds"))
	for i, stop := range []func(name string) error{
		func(name string) error {
			_, err := kinds.PauseRecurrence(ctx, &v1.PauseRecurrenceRequest{Owner: "ann", Name: name})
			return err
		},
		func(name string) error {
			_, err := kinds.StopRecurrence(ctx, &v1.StopRecurrenceRequest{Owner: "ann", Name: name})
			return err
		},
	} {
		name := fmt.Sprint("tea ", i)
		of := &v1.RecurRequest{Owner: "ann", Name: name, Kind: "order.tea", Timetable: "every 4h from 2026-01-01T00:00:00Z"}
		made, err := all.Recur(ctx, of)
		pipelinetest.Must(t, err)
		for _, due := range []string{ // the task's time has come, and it is being tried again
			"UPDATE duetime_tasks SET due_at = 1, attempt = 1 WHERE state = 0", "UPDATE duetime_recurrences SET due_at = 1",
		} {
			_, err = w.db().ExecContext(ctx, due)
			pipelinetest.Must(t, err)
		}
		of.Kind = "mail"
		_, err = all.Recur(ctx, of)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, stop(name))
		stands, err := all.Get(ctx, &v1.GetRequest{TaskId: made.GetRecurrence().GetNewestTaskId()})
		pipelinetest.Must(t, err)
		if got := stands.GetTask(); got.GetKind() != "order.tea" || got.GetState() != v1.State_STATE_PENDING {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// MySQL ignores blanks at the end of what it compares; a scope does not.
func TestBlanksAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("acme", api.RoleOperate, []string{"acme *"}, nil))
	c := w.dial(t, tokenOf("acme"))
	_, err := c.List(t.Context(), &v1.ListRequest{Owner: "acme "})
	wantCode(t, err, connect.CodeInvalidArgument, "")
	_, err = c.ListRecurrences(t.Context(), &v1.ListRecurrencesRequest{Owner: "acme "})
	wantCode(t, err, connect.CodeInvalidArgument, "")
	_, err = c.PreviewOperation(t.Context(), &v1.PreviewOperationRequest{Operation: &v1.NewOperation{
		Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{Owner: "acme "},
	}})
	wantCode(t, err, connect.CodeInvalidArgument, "")
}

func soon(id string) *v1.RescheduleRequest {
	return &v1.RescheduleRequest{TaskId: id, Due: &v1.RescheduleRequest_DueIn{DueIn: durationpb.New(0)}}
}

// A token has a share of the streams: others can watch beside it.
func TestStreamsAreShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("eager", api.RoleSchedule, nil, nil), callerOf("other", api.RoleRead, nil, nil))
	eager, other := w.dial(t, tokenOf("eager"), connect.WithGRPC()), w.dial(t, tokenOf("other"), connect.WithGRPC())
	id := eager.make(t, newTask("ann")).GetTaskId()
	ctx, end := context.WithCancel(t.Context())
	watch := func(c clients) error {
		stream, err := c.Watch(ctx, &v1.WatchRequest{TaskId: id})
		pipelinetest.Must(t, err)
		stream.Receive()
		return stream.Err()
	}
	for range 250 {
		pipelinetest.Must(t, watch(eager))
	}
	wantCode(t, watch(eager), connect.CodeResourceExhausted, "TOO_MANY_WATCHES")
	pipelinetest.Must(t, watch(other))
	end()
	ctx = t.Context()
	for deadline := time.Now().Add(minute); watch(eager) != nil; { // the server learns of the end by and by
		if time.Now().After(deadline) {
			t.Fatal("streams that have ended count on")
		}
	}
}

// The history names the token.
func TestHistoryNamesTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, callerOf("shop", api.RoleSchedule, nil, nil))
	c := w.dial(t, tokenOf("shop"))
	id := c.make(t, newTask("ann")).GetTaskId()
	_, err := c.Shift(t.Context(), &v1.ShiftRequest{TaskId: id, By: durationpb.New(time.Hour)})
	pipelinetest.Must(t, err)
	var n int
	for deadline := time.Now().Add(minute); n == 0 && time.Now().Before(deadline); { // lines are written after the commit
		pipelinetest.Must(t, w.db().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM duetime_history WHERE actor = 'api:shop'"))
	}
	if n != 1 {
		t.Errorf("%d lines name the token", n)
	}
}

// Without tokens, only somebody on this machine may call, and not by a web site that he looks at.
func TestWithoutTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, change := range map[string]func(r *http.Request){
		"another host": func(r *http.Request) { r.Host = "duetime.example" },
		"a web site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"an origin":    func(r *http.Request) { r.Header.Set("Origin", "https://site.example") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/duetime.v1.TaskService/List", strings.NewReader("{}"))
		pipelinetest.Must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Close = true
		change(req)
		res, err := http.DefaultClient.Do(req)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, res.Body.Close())
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
	}
	elsewhere := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/duetime.v1.TaskService/List", strings.NewReader("{}"))
	elsewhere.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	if w.handler.ServeHTTP(answer, elsewhere); answer.Code != http.StatusForbidden {
		t.Errorf("another machine that writes Host: localhost: status %d", answer.Code)
	}
}

// A file that can't be meant is refused, without a word of what may be a token.
func TestTokensAreRefused(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                    "there is no token",
		"[]":                                  "there is no token",
		"name: shop":                          "line 1",
		"- {name: a, tokn: hunter2hunter2xx}": "line 1",
		"- {name: a, role: king, token: hunter2hunter2xx}":                                                   "is no part of a list",
		"- {name: a, role: read, token: hunter2}":                                                            "fewer than 16",
		"- {name: a, token: hunter2hunter2xx}":                                                               "role must be",
		"- {role: read, token: hunter2hunter2xx}":                                                            "printable",
		"- {name: a@b, role: read, token: hunter2hunter2xx}":                                                 "without an @",
		"- {name: a, role: read, token: 'hunter2 hunter2x'}":                                                 "characters that a header",
		"- {name: a, role: read, token: hunter2hunter2xx, owners: []}":                                       "owners is empty",
		"- {name: a, role: read, token: hunter2hunter2xx, kinds: ['']}":                                      "kinds has an empty name",
		"- {name: a, role: read, token: hunter2hunter2xx, owners: }":                                         "token 1: owners is empty",
		"- {name: a, role: read, token: hunter2hunter2xx, kinds: ~}":                                         "token 1: kinds is empty",
		"- name: a\n  role: read\n  token: hunter2hunter2xx\n  owners:\n    # - customer-*":                  "token 1: owners is empty",
		"- {name: a, role: read, token: hunter2hunter2xx}\n- {name: a, role: read, token: hunter2hunter2yy}": "named twice",
		"- {name: a, role: read, token: hunter2hunter2xx}\n- {name: b, role: read, token: hunter2hunter2xx}": "has the token of a",
		"- {name: a, role: read, token: hunter2hunter2xx}\n---\n[]":                                          "more than one",
	} {
		tokens, err := api.ParseTokens(text)
		if err == nil {
			_, err = api.New(api.Config{Tokens: tokens}, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	tokens, err := api.ParseTokens("- {name: shop, role: schedule, token: hunter2hunter2xx, owners: ['shop-*'], kinds: [mail]}\n")
	pipelinetest.Must(t, err)
	if len(tokens) != 1 || tokens[0].Role != api.RoleSchedule || tokens[0].Owners[0] != "shop-*" || tokens[0].Kinds[0] != "mail" {
		t.Error("the tokens differ")
	}
}
