package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/pipelinetest"
)

// report prints a measured figure where it is seen however the test was started.
func report(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf(format, args...)
	fmt.Printf("e2e: "+format+"\n", args...)
}

// TestGame plays with nothing broken: all that was promised happens, once, and in time. It measures time, so it is alone.
func TestGame(t *testing.T) {
	w := newWorld(t)
	c := newCrowd(w.sizes, w.game.url(t, "game"))
	began := time.Now()
	c.adopt()
	report(t, "%d pets made in %v", w.sizes.pets, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	c.play()
	time.Sleep(w.sizes.play) // the length of the game itself
	c.end()
	byStatus, slowest := c.answers(began, time.Now())
	report(t, "answers by status %v, the slowest after %v", byStatus, slowest.Round(time.Millisecond))
	if byStatus[0]+byStatus[503] > 0 {
		t.Errorf("%d calls without an answer and %d with 503 though nothing was broken", byStatus[0], byStatus[503])
	}
	w.settle(t)
	w.wantClean(t)
	meals := w.check(t, c)
	all := lags(meals)
	report(t, "%d meals, %d took effect; lag p50 %v, p99 %v, max %v", len(meals), len(all), rank(all, 50), rank(all, 99), rank(all, 100))
	if len(all) < w.sizes.pets {
		t.Errorf("%d meals took effect, want at least one a pet, %d", len(all), w.sizes.pets)
	}
	if p99 := rank(all, 99); p99 > 2*time.Second {
		t.Errorf("lag p99 %v, want far below 2s", p99)
	}
	w.wantStats(t, len(all))
	w.wantMetrics(t)
	for _, p := range w.all() {
		if n := p.says(`"msg":"ready"`); n != 1 {
			t.Errorf("%s said ready %d times", p.name, n)
		}
	}
}

// settle waits until nothing that is due is pending.
func (w *world) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pipelinetest.Await(t, "the due tasks to take effect", func() bool {
		n, err := w.overdue(ctx, 100*time.Millisecond)
		pipelinetest.Must(t, err)
		return n == 0
	})
}

// wantClean wants verify to find nothing wrong.
func (w *world) wantClean(t *testing.T) {
	t.Helper()
	code, v := w.verify(t)
	report(t, "verify: %+v", v)
	clean := verified{Pending: v.Pending, Done: v.Done, Cancelled: v.Cancelled}
	if diff := cmp.Diff(clean, v); diff != "" || code != 0 {
		t.Errorf("verify: exit code %d, (-want +got):\n%s", code, diff)
	}
}

// wantStats wants duetime stats to tell of at least so many effects.
func (w *world) wantStats(t *testing.T, done int) {
	t.Helper()
	code, out := w.duetime(t, "stats", "--json")
	var st struct {
		States map[string]int     `json:"states"`
		Kinds  map[string]int     `json:"kinds"`
		LagMs  map[string]float64 `json:"lag_ms"`
	}
	if err := json.Unmarshal([]byte(out), &st); err != nil || code != 0 {
		t.Fatalf("stats: exit code %d, %v in %s", code, err, out)
	}
	report(t, "stats: %s", out)
	if _, measured := st.LagMs["p99"]; !measured || st.States["done"] < done || st.Kinds["pet.meal_finished"] < done {
		t.Errorf("stats tells of less than %d effects, or of no lag: %s", done, out)
	}
}

// wantMetrics wants the names that dashboards are built on.
func (w *world) wantMetrics(t *testing.T) {
	t.Helper()
	leader := w.events[w.leader(t)]
	if n := leader.metric(t, "duetime_hints_published_total"); n == 0 {
		t.Error("the leader has published nothing")
	}
	leading := 0.0
	for _, p := range w.events {
		leading += p.metric(t, "duetime_leader ")
	}
	if leading != 1 {
		t.Errorf("%v event processes lead, want 1", leading)
	}
	done, measured := 0.0, 0.0
	for _, p := range w.workers {
		done += p.metric(t, `duetime_tasks_settled_total{kind="pet.meal_finished",result="done"}`)
		measured += p.metric(t, `duetime_fire_lag_seconds_count{kind="pet.meal_finished"}`)
	}
	if done == 0 || measured < done { // read later, and meals go on ending
		t.Errorf("the workers tell of %v effects and %v lags", done, measured)
	}
}
