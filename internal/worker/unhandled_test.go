package worker_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

func TestKindWithoutAHandlerIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	wk := w.worker(mux, engine.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	typo := task.NewKind[payload]("meel")
	made := w.due(typo, 3)
	w.pass(wk, made...)
	row := w.store.Row(made[0].ID)
	if !strings.Contains(row.LastError, `kind "meel"`) || !strings.Contains(row.LastError, `queue "default"`) || !transition.Waits(row) {
		t.Errorf("the task does not say why it waits: %q", row.LastError)
	}
	want(t, "attempt", row.Attempt, 0)
	want(t, "counted", w.metric("duetime_tasks_unhandled_total", "queue", "default", "kind", "meel"), 3)
	want(t, "warnings of three tasks", strings.Count(log.String(), "no handler for kind"), 1)
	want(t, "warning names the kind", strings.Contains(log.String(), "kind=meel"), true)

	specs := make([]task.Spec, 300) // another program's names must not grow the metrics without end
	for i := range specs {
		specs[i] = task.NewKind[payload](fmt.Sprint("kind", i)).New("ann", payload{}, task.In(0))
	}
	w.pass(wk, w.schedule(specs...)...)
	if n := len(worldtest.Samples(t, w.reg, "duetime_tasks_unhandled_total")); n > 101 {
		t.Errorf("%d kinds have a metric", n)
	}
	want(t, "others", w.metric("duetime_tasks_unhandled_total", "kind", "other") > 100, true)
}

// A row that another program inserted fires, or ends dead with its reason, whatever it holds.
func TestRowsThatNoLimitOfOursLikes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	wk := w.worker(mux, engine.Config{})
	for name, c := range map[string]struct {
		set    string
		args   []any
		result string
		reason string
	}{
		"owner in braces":             {set: "owner = '{6F96-8B86}'", result: "done"},
		"owner of 64 letters":         {set: "owner = ?", args: []any{strings.Repeat("玩", 64)}, result: "done"},
		"no owner":                    {set: "owner = ''", result: "done"},
		"queue that nobody has":       {set: "queue = 'no such queue'", result: "done"},
		"subject with control":        {set: "subject = ?", args: []any{"a\x1fb\x00"}, result: "done"},
		"long payload":                {set: "payload = ?", args: []any{`{"word":"` + strings.Repeat("x", 60) + `","more":"` + strings.Repeat("y", 60_000) + `"}`}, result: "done"},
		"due before 1970":             {set: "due_at = -5, run_at = -5", result: "done"},
		"due at the beginning":        {set: "due_at = 0, run_at = 0", result: "done"},
		"version below zero":          {set: "version = -7", result: "done"},
		"version zero":                {set: "version = 0", result: "done"},
		"attempts below zero":         {set: "attempt = -100", result: "done"},
		"more attempts than it has":   {set: "attempt = 2147483647", result: "done"},
		"no attempts":                 {set: "max_attempts = 0", result: "done"},
		"attempts beyond our limit":   {set: "max_attempts = 2147483647", result: "done"},
		"no JSON, no attempts left":   {set: "payload = 'x', attempt = 2147483647", result: "dead", reason: "decode payload"},
		"no JSON, a key to the brim":  {set: "payload = 'x', max_attempts = 1, dedup_key = ?", args: []any{"k" + strings.Repeat("k", 159)}, result: "dead", reason: "decode payload"},
		"kind that nobody can handle": {set: "kind = 'Mahlzeit beendet!'", result: "dead", reason: "kind"},
		"no kind":                     {set: "kind = ''", result: "dead", reason: "kind"},
		"due in microseconds":         {set: "due_at = due_at * 1000, run_at = run_at * 1000", result: "dead", reason: "2039"},
		"due at the end of all days":  {set: "due_at = ?, run_at = ?", args: []any{int64(math.MaxInt64), int64(math.MaxInt64)}, result: "dead", reason: "2039"},
		"tried before it is due":      {set: "due_at = due_at + 3600000", result: "early"},
	} {
		made := w.due(meal, 1)[0]
		w.store.Exec("UPDATE duetime_tasks SET "+c.set+" WHERE id = ?", append(c.args, made.ID[:])...)
		if strings.HasPrefix(c.set, "due_at = due_at * 1000") {
			w.store.Exec("UPDATE duetime_tasks SET run_at = due_at WHERE id = ?", made.ID[:])
		}
		row := w.store.Row(made.ID)
		entry := protocol.ScoreOf(row)
		hint := protocol.Hint{ID: row.ID, Kind: protocol.HintKind(row.Kind), Owner: protocol.HintOwner(row.Owner), RunAt: entry.RunAt().UnixMilli(), Version: entry.Version()}
		outs, err := wk.Pass(t.Context(), []protocol.Hint{hint})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := w.store.Row(made.ID)
		if outs[0].Result != c.result || !outs[0].Settled || !strings.Contains(after.LastError, c.reason) {
			t.Errorf("%s: %s, settled %v, last error %q (%v)", name, outs[0].Result, outs[0].Settled, after.LastError, outs[0].Err)
		}
	}
}

func TestNothingIsEarlyWhereTheNextTryStandsBeforeTheDueTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mux := worker.NewMux()
	worker.Handle(mux, meal, effect)
	wk := w.worker(mux, engine.Config{})
	made := w.dueIn(meal, 1, time.Hour)[0]
	w.store.Exec("UPDATE duetime_tasks SET run_at = 0 WHERE id = ?", made.ID[:])
	w.pass(wk, w.store.Row(made.ID))
	row := w.store.Row(made.ID)
	want(t, "effects", w.effects(made.ID), 0)
	want(t, "next try", row.RunAt, row.DueAt)
	want(t, "put into the index", len(w.index.PutsOf(made.ID)), 1)
}
