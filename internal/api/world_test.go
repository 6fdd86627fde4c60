package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/duetime/duetime/internal/api"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/duetimev1/duetimev1connect"
	"github.com/duetime/duetime/pkg/embedded"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

const minute = time.Minute // longer than anything takes

// world is an API on a pipeline that runs nothing.
type world struct {
	url      string
	handler  http.Handler
	pipeline *embedded.Pipeline
	registry *prometheus.Registry
	stop     func() // ends the API's loop, and returns when it has ended
}

func open(t testing.TB, dsn string) *embedded.Pipeline {
	t.Helper()
	cfg := embedded.Config{Queues: []string{"default", "reports"}, Logger: slog.New(slog.DiscardHandler)}
	p, err := embedded.OpenMySQL(t.Context(), dsn, cfg)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	return p
}

func newWorld(t testing.TB, tokens ...api.Token) *world {
	t.Helper()
	return serve(t, open(t, worldtest.Schema(t)), tokens)
}

func serve(t testing.TB, p *embedded.Pipeline, tokens []api.Token) *world {
	t.Helper()
	w := &world{pipeline: p, registry: prometheus.NewRegistry()}
	served, err := api.New(api.Config{
		Tokens: tokens, Metrics: w.registry, Unavailable: p.Unavailable, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Full: func(err error) bool { return store.Classify(err) == store.Full },
		Deployment: func(ctx context.Context) (string, error) {
			layout, err := store.On(p.DB(), store.MySQL).Layout(ctx)
			return layout.Deployment, err
		},
	}, p.Client, p.Console())
	pipelinetest.Must(t, err)
	stop := worldtest.Run(t, served.Run)
	w.stop = func() { pipelinetest.Must(t, stop()) }
	server := httptest.NewUnstartedServer(served)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		w.stop()
		server.Close()
	})
	w.url, w.handler = server.URL, served
	return w
}

func (w *world) db() *sqlx.DB { return w.pipeline.DB() }

// state sums up all rows that a call could change.
func (w *world) state(t testing.TB) (sums [5]int64) {
	t.Helper()
	const query = `SELECT (SELECT COUNT(*) FROM duetime_tasks), (SELECT COALESCE(SUM(version), 0) FROM duetime_tasks),
		(SELECT COALESCE(SUM(due_at), 0) FROM duetime_tasks), (SELECT COALESCE(SUM(updated_at), 0) FROM duetime_recurrences),
		(SELECT COUNT(*) + COALESCE(SUM(state), 0) FROM duetime_operations)`
	err := w.db().QueryRowxContext(t.Context(), query).Scan(&sums[0], &sums[1], &sums[2], &sums[3], &sums[4])
	pipelinetest.Must(t, err)
	return sums
}

// kill makes a pending task dead.
func (w *world) kill(t testing.TB, id string) {
	t.Helper()
	hex := strings.ReplaceAll(id, "-", "")
	query := "UPDATE duetime_tasks SET state = 3, version = version + 1, last_error = 'broken' WHERE id = X'" + hex + "'"
	_, err := w.db().ExecContext(t.Context(), query)
	pipelinetest.Must(t, err)
}

// clients call all services.
type clients struct {
	duetimev1connect.TaskServiceClient
	duetimev1connect.RecurrenceServiceClient
	duetimev1connect.OwnerServiceClient
	duetimev1connect.OperationServiceClient
	duetimev1connect.GroupServiceClient
	duetimev1connect.PauseServiceClient
	duetimev1connect.QueueServiceClient
}

// transports are the forms in which the API can be called.
var transports = map[string][]connect.ClientOption{
	"grpc":     {connect.WithGRPC()},
	"grpc-web": {connect.WithGRPCWeb()},
	"json":     {connect.WithProtoJSON()},
}

// dial makes clients with a token; empty: none.
func (w *world) dial(t testing.TB, token string, options ...connect.ClientOption) clients {
	t.Helper()
	if token != "" {
		options = append(slices.Clone(options), connect.WithInterceptors(bearer(token)))
	}
	h := overHTTP2(t)
	return clients{
		duetimev1connect.NewTaskServiceClient(h, w.url, options...),
		duetimev1connect.NewRecurrenceServiceClient(h, w.url, options...),
		duetimev1connect.NewOwnerServiceClient(h, w.url, options...),
		duetimev1connect.NewOperationServiceClient(h, w.url, options...),
		duetimev1connect.NewGroupServiceClient(h, w.url, options...),
		duetimev1connect.NewPauseServiceClient(h, w.url, options...),
		duetimev1connect.NewQueueServiceClient(h, w.url, options...),
	}
}

func overHTTP2(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// bearer sends a token with each call.
type bearer string

func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("Authorization", "Bearer "+string(b))
		return next(ctx, req)
	}
}

func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("Authorization", "Bearer "+string(b))
		return conn
	}
}

func (bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// post sends a request by hand, and returns the status and the body of the answer.
func (w *world) post(t testing.TB, path, contentType, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
	pipelinetest.Must(t, err)
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	pipelinetest.Must(t, err)
	return res.StatusCode, string(text)
}

// newTask is a task of the owner, due in an hour.
func newTask(owner string) *v1.NewTask {
	return &v1.NewTask{
		Kind: "order.expire", Owner: owner, Due: &v1.NewTask_DueIn{DueIn: durationpb.New(time.Hour)},
		Payload: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"order": structpb.NewNumberValue(42)}}),
	}
}

func (c clients) make(t testing.TB, task *v1.NewTask) *v1.Task {
	t.Helper()
	made, err := c.Schedule(t.Context(), &v1.ScheduleRequest{Task: task})
	pipelinetest.Must(t, err)
	return made.GetTask()
}

// wantCode wants an error of this code, and with this reason if there is one.
func wantCode(t testing.TB, err error, code connect.Code, reason string) {
	t.Helper()
	if got := connect.CodeOf(err); err == nil || got != code {
		t.Errorf("got %v (%v), want code %v", err, got, code)
		return
	}
	if got := reasonOf(t, err).GetReason(); got != reason {
		t.Errorf("got reason %q of %v, want %q", got, err, reason)
	}
}

func reasonOf(t testing.TB, err error) *errdetails.ErrorInfo {
	t.Helper()
	return detailOf[*errdetails.ErrorInfo](t, err)
}

// wantTaken wants an error that names the field whose id another task has.
func wantTaken(t testing.TB, err error, field string) {
	t.Helper()
	wantCode(t, err, connect.CodeAlreadyExists, "ID_TAKEN")
	if got := reasonOf(t, err).GetMetadata()["field"]; got != field {
		t.Errorf("the error names %q, want %q", got, field)
	}
}

// wantField wants an error that names the field.
func wantField(t testing.TB, err error, code connect.Code, field string) {
	t.Helper()
	violations := detailOf[*errdetails.BadRequest](t, err).GetFieldViolations()
	if got := connect.CodeOf(err); err == nil || got != code || len(violations) != 1 || violations[0].GetField() != field {
		t.Errorf("got %v with the violations %v, want code %v for field %q", err, violations, code, field)
	}
}

func detailOf[M any](t testing.TB, err error) (found M) {
	t.Helper()
	failed, is := errors.AsType[*connect.Error](err)
	if !is {
		return found
	}
	for _, d := range failed.Details() {
		message, err := d.Value()
		pipelinetest.Must(t, err)
		if m, is := message.(M); is {
			found = m
		}
	}
	return found
}
