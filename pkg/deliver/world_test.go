package deliver_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/deliver"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

const (
	older = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newer = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVzISEh"
)

// TestMain sets a proxy at which nobody listens: no request may go there.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		if err := os.Setenv(name, "http://127.0.0.1:1"); err != nil {
			panic(err)
		}
	}
	os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines()))
}

// world is a database with tasks, a mux that delivers them, and what metrics and log say.
type world struct {
	*schedule.Client

	t      *testing.T
	db     *sql.DB
	mux    *worker.Mux
	pusher *deliver.Pusher
	reg    *prometheus.Registry
	log    *lines
}

// lines is a log that is written and read at once.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.text.Bytes(), []byte(text))
}

// newWorld allows loopback, if nothing else is given.
func newWorld(t *testing.T, allow ...string) *world {
	t.Helper()
	if len(allow) == 0 {
		allow = []string{"127.0.0.0/8"}
	}
	db, err := sql.Open("mysql", worldtest.Schema(t))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, db.Close()) })
	duetimetest.Migrate(t, db)
	w := &world{
		t: t, Client: duetimetest.Client(t, db), db: db, mux: worker.NewMux(), reg: prometheus.NewRegistry(), log: &lines{},
	}
	w.pusher, err = deliver.New(deliver.Config{
		Namespace: "shop", Allow: allow, Metrics: w.reg, Logger: slog.New(slog.NewTextHandler(w.log, nil)),
	})
	pipelinetest.Must(t, err)
	t.Cleanup(w.pusher.Close)
	return w
}

// once is a backoff so long that a failed task does not run again.
var once = task.Retry(task.Backoff{Min: 24 * time.Hour, Max: 24 * time.Hour})

func kindOf(name string, opts ...task.KindOption) task.Kind[json.RawMessage] {
	return task.NewKind[json.RawMessage](name, append(opts, task.Queue("push"))...)
}

// handle delivers a kind to the URL.
func (w *world) handle(kind task.Kind[json.RawMessage], url string, timeout time.Duration) {
	w.t.Helper()
	to := deliver.Endpoint{URL: url, Secrets: []string{newer, older}, Timeout: timeout}
	pipelinetest.Must(w.t, deliver.Handle(w.mux, kind, w.pusher, to))
}

// due schedules a task that is due now.
func (w *world) due(kind task.Kind[json.RawMessage], owner string, opts ...task.Option) task.Task {
	w.t.Helper()
	made, err := w.Schedule(w.t.Context(), kind.New(owner, json.RawMessage(`{"order":42}`), task.In(0), opts...))
	pipelinetest.Must(w.t, err)
	return made
}

func (w *world) fire(ahead time.Duration) []duetimetest.Fired {
	w.t.Helper()
	return duetimetest.Fire(w.t, w.db, w.mux, time.Now().Add(ahead))
}

// metric sums the samples of a metric with a label's value; an empty value is any.
func (w *world) metric(name, label, value string) float64 {
	w.t.Helper()
	return worldtest.Sum(w.t, w.reg, name, label, value)
}

// received is a request with its body.
type received struct {
	*http.Request

	body []byte
}

// receiver remembers what it got, and answers by a function that knows how many requests came before.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex
	got []received
}

func newReceiver(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	rec := &receiver{}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rec.mu.Lock()
		n := len(rec.got)
		rec.got = append(rec.got, received{r, body})
		rec.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

// says makes a receiver that gives one answer.
func says(t *testing.T, status int, header, text string) *receiver {
	t.Helper()
	return newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set("Retry-After", header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}
