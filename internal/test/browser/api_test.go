package browser_test

import (
	_ "embed"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// grpcweb calls by gRPC-Web with nothing but the browser's fetch.
//
//go:embed testdata/grpcweb.js
var grpcweb string

const pageToken = "page-0123456789abcdef"

// reply is what a call of grpcweb.js is answered with.
type reply struct {
	Messages []string // in base64
	Status   string   // of gRPC
	Refused  string   // by the browser
}

// site serves an empty page on an origin of its own, and returns the origin.
func site(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, err := w.Write([]byte(`<!doctype html><title>A web site</title><link rel="icon" href="data:,">`))
		pipelinetest.Must(t, err)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// called is a call of the API by a script of the page, as an expression.
func called(t *testing.T, api, method, token string, request proto.Message) string {
	t.Helper()
	b, err := proto.Marshal(request)
	pipelinetest.Must(t, err)
	return "grpcweb(" + quoted(api+"/duetime.v1.TaskService/"+method) + ", " + quoted(token) + ", " + quoted(base64.StdEncoding.EncodeToString(b)) + ")"
}

// messageOf reads a message of a reply, which must have come without an error.
func messageOf[M proto.Message](t *testing.T, r reply, i int, into M) M {
	t.Helper()
	if r.Status != "0" || r.Refused != "" || len(r.Messages) <= i {
		t.Fatalf("answered with %+v", r)
	}
	b, err := base64.StdEncoding.DecodeString(r.Messages[i])
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, proto.Unmarshal(b, into))
	return into
}

// A page of a web site that the API knows calls it by gRPC-Web, and reads a stream. The browser refuses the page of another.
func TestAPI(t *testing.T) {
	t.Parallel()
	d := pipelinetest.SharedDeployment(t)
	ours, other := site(t), site(t)
	process := d.Ready(t, "api", "DUETIME_API__ORIGINS="+ours,
		"DUETIME_API__TOKENS=- {name: page, role: schedule, token: "+pageToken+", owners: [ann]}")
	api := process.URL(t, "api")
	browser := openBrowser(t)
	open := func(t *testing.T, origin string) *tab {
		t.Helper()
		p := openTab(t, browser, origin)
		p.show("/")
		eval[bool](p, grpcweb+"; true")
		return p
	}
	task := &v1.ScheduleRequest{Task: &v1.NewTask{
		Kind: "order.expire", Owner: "ann", Key: "one", Due: &v1.NewTask_DueIn{DueIn: durationpb.New(time.Hour)},
	}}

	p := open(t, ours)
	made := messageOf(t, eval[reply](p, called(t, api, "Schedule", pageToken, task)), 0, new(v1.ScheduleResponse))
	id := made.GetTask().GetTaskId()
	read := messageOf(t, eval[reply](p, called(t, api, "Get", pageToken, &v1.GetRequest{TaskId: id})), 0, new(v1.GetResponse))
	want(t, "owner of the task", read.GetTask().GetOwner(), "ann")
	want(t, "status without a valid token", eval[reply](p, called(t, api, "Get", "nobody", &v1.GetRequest{TaskId: id})).Status, "16")

	eval[bool](p, "grpcweb.messages = 0; window.stream = "+called(t, api, "Watch", pageToken, &v1.WatchRequest{TaskId: id})+"; true")
	p.await("grpcweb.messages > 0")
	messageOf(t, eval[reply](p, called(t, api, "Cancel", pageToken, &v1.CancelRequest{TaskId: id})), 0, new(v1.CancelResponse))
	seen := eval[reply](p, "stream")
	want(t, "state that the stream begins with", messageOf(t, seen, 0, new(v1.WatchResponse)).GetTask().GetState(), v1.State_STATE_PENDING)
	last := messageOf(t, seen, len(seen.Messages)-1, new(v1.WatchResponse)).GetTask()
	want(t, "state that the stream ends with", last.GetState(), v1.State_STATE_CANCELLED)
	p.forgive("a request of another host: " + api)

	p = open(t, other)
	refused := eval[reply](p, called(t, api, "Schedule", pageToken, task))
	wantHas(t, "what the browser says to another site", refused.Refused, "Failed to fetch")
	p.forgive(api)
	want(t, "calls of both sites", process.Metric(t, `duetime_api_requests_total{code="ok",method="Schedule"}`), 1)
}

// The API's own page makes a curl of a call, and makes the call with the token that somebody types.
func TestAPIPage(t *testing.T) {
	t.Parallel()
	process := pipelinetest.SharedDeployment(t).Ready(t, "api", "DUETIME_API__TOKENS=- {name: page, role: read, token: "+pageToken+"}")
	p := openTab(t, openBrowser(t), process.URL(t, "api"))
	p.open("/docs")
	p.says("#List .curl", "curl "+process.URL(t, "api")+"/duetime.v1.TaskService/List \\")
	p.click("#List button:not([type])")
	p.says("#List output", "401")
	p.forgive("401")
	p.fill("#token", pageToken)
	p.says("#List .curl", "-H 'Authorization: Bearer TOKEN'")
	p.click("#List button:not([type])")
	p.says("#List output", "200")
	eval[bool](p, `(at => { at.value = '{"owner": "d\'Artagnan", "limit": "many"}'; return at.dispatchEvent(new Event("input", {bubbles: true})) })(`+
		`document.querySelector("#List textarea"))`)
	p.says("#List .curl", `-d '{"owner": "d'\''Artagnan", "limit": "many"}'`)
	p.click("#List button:not([type])")
	p.says("#List output", "limit must be a whole number")
	p.forgive("400")
	p.click("#Schedule summary")
	p.says("#Schedule table", "task.owner required")
	for _, width := range []int64{1280, 390} {
		p.do(chromedp.EmulateViewport(width, 800))
		p.wantAccessible("docs", width)
	}
}
