package main_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

type queueLimit struct {
	Queue, Rate string
	Concurrency int
	ByOperator  bool `json:"by_operator"`
	Limited     bool
}

func TestQueueLimits(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	limits := func() []queueLimit {
		t.Helper()
		return decode[[]queueLimit](t, d.wantCode(t, 0, "queue", "list", "--json"))
	}
	want := func(q queueLimit) {
		t.Helper()
		q.Queue = "default"
		if diff := cmp.Diff([]queueLimit{q}, limits()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want(queueLimit{})
	d.wantCode(t, 0, "queue", "rate", "default", "50/m")
	d.wantCode(t, 0, "queue", "concurrency", "default", "3")
	want(queueLimit{Rate: "50/m", Concurrency: 3, ByOperator: true})
	if got := d.wantCode(t, 0, "queue", "list"); !strings.Contains(got.out, "default  configuration  50/m  0 of 3") {
		t.Errorf("the table is\n%s", got.out)
	}
	d.wantCode(t, 0, "queue", "rate", "default", "none")
	want(queueLimit{Concurrency: 3, ByOperator: true})
	for args, problem := range map[string]string{
		"rate default 50":           "rate must be 1 to 1000000 a second, minute or hour, such as 200/s, 50/m or 10/h",
		"rate default 0/s":          "rate must be 1 to 1000000",
		"rate default 1000001/s":    "rate must be 1 to 1000000",
		"rate mials 5/s":            "mials",
		"concurrency default 0":     "concurrency must be 1 to 10000, none or default",
		"concurrency default 9999x": "concurrency must be 1 to 10000",
		"concurrency mials 5":       "mials",
	} {
		if got := d.wantCode(t, 1, append([]string{"queue"}, strings.Fields(args)...)...); !strings.Contains(got.err, problem) {
			t.Errorf("%s: %q, want %q", args, got.err, problem)
		}
	}
	want(queueLimit{Concurrency: 3, ByOperator: true})
	d.wantCode(t, 0, "queue", "rate", "default", "default")
	d.wantCode(t, 0, "queue", "concurrency", "default", "default")
	want(queueLimit{})
	var lines []string
	pipelinetest.Must(t, d.db.Select(&lines, "SELECT detail FROM duetime_history WHERE event = 'limited' ORDER BY seq"))
	history := []string{
		"default rate: 50/m", "default concurrency: 3", "default rate: none", "default rate: as configured", "default concurrency: as configured",
	}
	if diff := cmp.Diff(history, lines); diff != "" {
		t.Errorf("the history (-want +got):\n%s", diff)
	}
}

// The tool adds a queue, and retires it once nothing uses it.
func TestAddAndRetireQueue(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, says := range []string{"pushes is added", "pushes is there already"} {
		if got := d.wantCode(t, 0, "queue", "add", "pushes"); strings.TrimSpace(got.out) != says {
			t.Errorf("got %q, want %q", got.out, says)
		}
	}
	if got := d.wantCode(t, 0, "queue", "list"); !strings.Contains(got.out, "pushes   operator") {
		t.Errorf("the table is\n%s", got.out)
	}
	d.wantCode(t, 0, "queue", "rate", "pushes", "50/m")
	d.wantCode(t, 0, "pause", "pushes")
	if got := d.wantCode(t, 1, "queue", "retire", "default"); !strings.Contains(got.err, "is of the configuration") {
		t.Errorf("got %q", got.err)
	}
	if got := d.wantCode(t, 0, "queue", "retire", "pushes"); strings.TrimSpace(got.out) != "pushes is retired" {
		t.Errorf("got %q", got.out)
	}
	if got := d.wantCode(t, 0, "queue", "list", "--json"); strings.Contains(got.out, "pushes") {
		t.Errorf("it has left\n%s", got.out)
	}
	if got := d.wantCode(t, 1, "queue", "retire", "pushes"); !strings.Contains(got.err, "was not added") {
		t.Errorf("got %q", got.err)
	}
}
