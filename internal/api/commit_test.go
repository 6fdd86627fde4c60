package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// A change whose COMMIT was not answered may have been made: no call says that nothing was changed.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), pipelinetest.MySQL(t)
	loser := pipelinetest.LoseCommits(t, server.Addr())
	w := serve(t, open(t, strings.Replace(worldtest.Schema(t), server.Addr(), loser.Addr(), 1)), nil)
	c := w.dial(t, "", connect.WithGRPC())
	dead, pending := c.make(t, newTask("ann")).GetTaskId(), c.make(t, newTask("ann")).GetTaskId()
	w.kill(t, dead)
	for name, call := range map[string]func() error{
		"Retry":  func() error { _, err := c.Retry(ctx, &v1.RetryRequest{TaskId: dead}); return err },
		"Cancel": func() error { _, err := c.Cancel(ctx, &v1.CancelRequest{TaskId: pending}); return err },
		"Recur": func() error {
			_, err := c.Recur(ctx, &v1.RecurRequest{
				Owner: "bob", Name: "tea", Kind: "tea", Timetable: "every 4h from 2026-01-01T00:00:00Z",
			})
			return err
		},
		"BeginOperation": func() error {
			_, err := c.BeginOperation(ctx, &v1.BeginOperationRequest{Operation: &v1.NewOperation{
				Verb: v1.Verb_VERB_CANCEL, Filter: &v1.Filter{Owner: "eve"},
			}})
			return err
		},
	} {
		loser.Lose(true)
		err := call()
		loser.Lose(false)
		t.Log(name)
		wantCode(t, err, connect.CodeUnknown, "COMMIT_UNKNOWN")
	}
	for id, want := range map[string]v1.State{dead: v1.State_STATE_PENDING, pending: v1.State_STATE_CANCELLED} {
		got, err := c.Get(ctx, &v1.GetRequest{TaskId: id})
		pipelinetest.Must(t, err)
		if got.GetTask().GetState() != want {
			t.Errorf("got %v, want %v", got.GetTask(), want)
		}
	}
}

// The trigger answers as a server without space does.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const full = "CREATE TRIGGER full BEFORE INSERT ON duetime_tasks FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114"
	_, err := w.db().ExecContext(t.Context(), full)
	pipelinetest.Must(t, err)
	_, err = w.dial(t, "").Schedule(t.Context(), &v1.ScheduleRequest{Task: newTask("ann")})
	wantCode(t, err, connect.CodeUnavailable, "DATABASE_FULL")
}

// The server's answer at the end of a call's time has a reason, unlike those that clients make themselves: nothing was changed.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.dial(t, "").make(t, newTask("ann")).GetTaskId()
	holder, err := w.db().BeginTxx(t.Context(), nil)
	pipelinetest.Must(t, err)
	defer func() { _ = holder.Rollback() }()
	_, err = holder.ExecContext(t.Context(), "SELECT id FROM duetime_tasks FOR UPDATE")
	pipelinetest.Must(t, err)
	before := w.state(t)
	const path = "/duetime.v1.TaskService/Cancel"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(`{"taskId": "`+id+`"}`))
	pipelinetest.Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connect-Timeout-Ms", "100")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	if res.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(text), "CALL_TIMEOUT") {
		t.Errorf("status %d, %s", res.StatusCode, text)
	}
	pipelinetest.Must(t, holder.Rollback())
	if after := w.state(t); after != before {
		t.Errorf("the call changed %v to %v", before, after)
	}
}
