package deliver_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// The receiver verifies each try by either of the two secrets of a rotation, and finds the same id and the task's attributes.
func TestEachTryIsSignedUnderOneID(t *testing.T) {
	t.Parallel()
	rec := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	w, kind := newWorld(t), kindOf("order.expired")
	w.handle(kind, rec.URL+"/hook?token=x", 0)
	made := w.due(kind, `ann "的"%`, task.Subject("order 42"))
	fired := w.fire(time.Minute)
	if len(fired) != 2 || fired[0].Result != "failed" || fired[1].Result != "done" {
		t.Fatalf("fired %v, want failed and done", fired)
	}
	got := rec.requests()
	if len(got) != 2 {
		t.Fatalf("%d requests, want 2", len(got))
	}
	for i, r := range got {
		for _, secret := range []string{older, newer} {
			wh, err := standardwebhooks.NewWebhook(secret)
			pipelinetest.Must(t, err)
			if err := wh.Verify(r.body, r.Header); err != nil {
				t.Errorf("try %d: %v", i, err)
			}
		}
		sent, err := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		if since := time.Since(time.Unix(sent, 0)); err != nil || since < -time.Second || since > time.Minute {
			t.Errorf("try %d: timestamp %d (%v)", i, sent, err)
		}
		want := map[string]string{
			"webhook-id": made.ID.String(), "ce-id": made.ID.String(), "ce-type": "order.expired", "ce-source": "/duetime/shop",
			"ce-specversion": "1.0", "ce-time": made.DueAt.UTC().Format(time.RFC3339Nano), "ce-subject": "order%2042",
			"ce-owner": "ann%20%22%E7%9A%84%22%25", "content-type": "application/json", "user-agent": "duetime",
		}
		for name, value := range want {
			if got := r.Header.Get(name); got != value {
				t.Errorf("try %d: header %s: got %q, want %q", i, name, got, value)
			}
		}
		if _, sent := r.Header["Idempotency-Key"]; sent {
			t.Error("an idempotency key was sent")
		}
		if shown := fmt.Sprint(r.Method, r.URL, string(r.body)); shown != `POST/hook?token=x{"order":42}` {
			t.Errorf("try %d: got %s", i, shown)
		}
	}
	if n := w.metric("duetime_pushes_total", "outcome", "done"); n != 1 {
		t.Errorf("%v pushes done, want 1", n)
	}
	if n := w.metric("duetime_pushes_total", "namespace", "shop"); n != 2 {
		t.Errorf("%v pushes of the namespace, want 2", n)
	}
	if n := w.metric("duetime_pushes_total", "outcome", "failed"); n != 1 {
		t.Errorf("%v pushes failed, want 1", n)
	}
}

// A failed task runs again after the kind's backoff, at most its maximum of attempts.
func TestRetriesFollowTheBackoff(t *testing.T) {
	t.Parallel()
	rec := says(t, http.StatusInternalServerError, "", "")
	backoff := task.Backoff{Min: 10 * time.Second, Max: time.Hour}
	w, kind := newWorld(t), kindOf("order.expired", task.MaxAttempts(4), task.Retry(backoff))
	w.handle(kind, rec.URL, 0)
	w.due(kind, "ann")
	fired := w.fire(time.Hour)
	if len(fired) != 4 || len(rec.requests()) != 4 {
		t.Fatalf("%d tries and %d requests, want 4", len(fired), len(rec.requests()))
	}
	for i, run := range fired {
		if run.Attempt != i+1 {
			t.Errorf("try %d: attempt %d", i, run.Attempt)
		}
		if i == 3 {
			break
		}
		if delay, longest := run.RunAt.Sub(run.UpdatedAt), 10*time.Second<<i; delay < 0 || delay > longest {
			t.Errorf("try %d: the next one is %v later, want at most %v", i, delay, longest)
		}
		if next := fired[i+1].At; next.Before(run.RunAt) {
			t.Errorf("try %d came %v early", i+1, run.RunAt.Sub(next))
		}
	}
	if fired[3].State != task.Dead {
		t.Errorf("after all attempts: %v", fired[3].State)
	}
}
