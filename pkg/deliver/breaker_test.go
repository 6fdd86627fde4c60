package deliver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/duetimetest"
	"github.com/duetime/duetime/pkg/task"
)

// results counts the runs by their results.
func results(fired []duetimetest.Fired) map[string]int {
	counts := map[string]int{}
	for _, run := range fired {
		counts[run.Result]++
	}
	return counts
}

// After five failures in a row the other tasks of the endpoint, of any kind, wait without using up attempts; those of another
// endpoint don't.
func TestOpenBreakerKeepsTasksWaiting(t *testing.T) {
	t.Parallel()
	down, up := says(t, http.StatusBadGateway, "", ""), says(t, http.StatusOK, "", "")
	w := newWorld(t)
	w.pusher.OpenFor(time.Hour)
	expired, paid, sent := kindOf("order.expired", once), kindOf("order.paid", once), kindOf("order.sent", once)
	w.handle(expired, down.URL+"/orders", 0)
	w.handle(paid, down.URL+"/orders", 0)
	w.handle(sent, up.URL, 0)
	for i := range 8 {
		w.due(expired, fmt.Sprint("owner", i))
	}
	if got := results(w.fire(0)); got["failed"] != 5 || got["snoozed"] != 3 {
		t.Errorf("got %v, want 5 failed and 3 snoozed", got)
	}
	w.due(paid, "ann")
	w.due(sent, "ann")
	for _, run := range w.fire(0) {
		want := duetimetest.Snoozed
		if run.Kind == sent.Name() {
			want = duetimetest.Done
		}
		if run.Result != want || run.Attempt != 0 {
			t.Errorf("%s: got %s after %d attempts, want %s after none", run.Kind, run.Result, run.Attempt, want)
		}
		if wait := run.RunAt.Sub(run.UpdatedAt); want == duetimetest.Snoozed && (wait < 2*time.Second || wait > 10*time.Minute) {
			t.Errorf("it waits for %v", wait)
		}
	}
	if n := len(down.requests()); n != 5 {
		t.Errorf("%d requests were sent, want 5", n)
	}
	at := down.Listener.Addr().String()
	if open := w.metric("duetime_push_breaker_open", "endpoint", at); open != 1 {
		t.Errorf("the breaker is shown as %v, want 1", open)
	}
	if open := w.metric("duetime_push_breaker_open", "endpoint", up.Listener.Addr().String()); open != 0 {
		t.Errorf("the other breaker is shown as %v, want 0", open)
	}
	if n := w.metric("duetime_pushes_total", "outcome", "waiting"); n != 4 {
		t.Errorf("%v waits counted, want 4", n)
	}
	if n := w.log.count(`level=WARN msg="endpoint is away, its tasks wait" endpoint=` + at + ` kinds=order.expired,order.paid`); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// Behind one gateway a path that fails keeps no task of another path waiting. The metric shows the host as away until all its paths
// are back.
func TestBreakerIsThePaths(t *testing.T) {
	t.Parallel()
	var billingIsBack, mailIsBack atomic.Bool
	gateway := newReceiver(t, func(_ int, rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/billing" && !billingIsBack.Load() || r.URL.Path == "/mail" && !mailIsBack.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	w := newWorld(t)
	w.pusher.OpenFor(time.Millisecond)
	billing, mail, stock := kindOf("billing.close", task.MaxAttempts(1000)), kindOf("mail.send", task.MaxAttempts(1000)), kindOf("stock.release", once)
	w.handle(billing, gateway.URL+"/billing", 0)
	w.handle(mail, gateway.URL+"/mail", 0)
	w.handle(stock, gateway.URL+"/stock", 0)
	for i := range 6 {
		w.due(billing, fmt.Sprint("customer", i))
		w.due(mail, fmt.Sprint("customer", i))
	}
	w.fire(0)
	well := w.due(stock, "customer")
	for _, run := range w.fire(0) {
		if run.ID == well.ID && run.Result != duetimetest.Done {
			t.Errorf("the task of the path that is well: %s", run.Result)
		}
	}
	for _, step := range []struct {
		back  *atomic.Bool
		kind  task.Kind[json.RawMessage]
		shown float64
	}{{&billingIsBack, billing, 1}, {&mailIsBack, mail, 0}} {
		step.back.Store(true)
		pipelinetest.Await(t, step.kind.Name()+" to be back", func() bool {
			w.fire(2 * time.Minute)
			return w.log.count(`level=INFO msg="endpoint is back" endpoint=`+gateway.Listener.Addr().String()+" kinds="+step.kind.Name()) == 1
		})
		if open := w.metric("duetime_push_breaker_open", "endpoint", ""); open != step.shown {
			t.Errorf("%s is back: the breaker is shown as %v, want %v", step.kind.Name(), open, step.shown)
		}
	}
}

// The breaker closes when the endpoint answers a probe, and all tasks that waited are done.
func TestBreakerCloses(t *testing.T) {
	t.Parallel()
	var healthy atomic.Bool
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w, kind := newWorld(t), kindOf("order.expired", task.MaxAttempts(1000))
	w.pusher.OpenFor(time.Millisecond)
	w.handle(kind, rec.URL, 0)
	tasks := map[task.ID]bool{}
	for i := range 8 {
		tasks[w.due(kind, fmt.Sprint("owner", i)).ID] = true
	}
	w.fire(time.Second)
	if open := w.metric("duetime_push_breaker_open", "endpoint", ""); open != 1 {
		t.Fatalf("the breaker is shown as %v, want 1", open)
	}
	healthy.Store(true)
	pipelinetest.Await(t, "all tasks to be done", func() bool {
		for _, run := range w.fire(2 * time.Minute) {
			if run.Result == duetimetest.Done {
				delete(tasks, run.ID)
			}
		}
		return len(tasks) == 0
	})
	if open := w.metric("duetime_push_breaker_open", "endpoint", ""); open != 0 {
		t.Errorf("the breaker is shown as %v, want 0", open)
	}
	if n := w.log.count(`level=INFO msg="endpoint is back"`); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// Answers that speak against a task leave the endpoint's breaker closed.
func TestRefusedTasksLeaveTheBreakerClosed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusGone, http.StatusServiceUnavailable} {
		retryAfter := ""
		if status == http.StatusServiceUnavailable {
			retryAfter = "60"
		}
		rec := says(t, status, retryAfter, "")
		w, kind := newWorld(t), kindOf("order.expired", once)
		w.handle(kind, rec.URL, 0)
		for i := range 12 {
			w.due(kind, fmt.Sprint("owner", i))
		}
		w.fire(0)
		if n := len(rec.requests()); n != 12 {
			t.Errorf("%d: %d requests, want 12", status, n)
		}
	}
}
