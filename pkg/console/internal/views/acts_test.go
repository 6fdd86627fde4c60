package views

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// Acts come newest first, and in the order of their lines within a millisecond; lines without an operator are none.
func acts(t *testing.T, v Views) {
	if got, longer, err := v.Operators(t.Context()); err != nil || longer || len(got) > 0 {
		t.Errorf("operators of an empty history: %v, longer %v, %v", got, longer, err)
	}
	actors := []string{
		"ann@host", "service", "bob@host", "worker", "worker 0192f0c1",
		"ann@host", "service@pod", "worker 0192f0c2", "workers@host", "",
	}
	var lines, want []protocol.Event
	for i := range 40 {
		at := t0.Add(time.Duration(i/8) * time.Second)
		e := protocol.Event{At: at, Name: protocol.EventMoved, Actor: actors[i%10], Detail: fmt.Sprint(i)}
		if i%3 > 0 {
			e.Task = task.NewID()
		}
		lines = append(lines, e)
		if strings.Contains(e.Actor, "@") {
			want = append(want, e)
		}
	}
	pipelinetest.Must(t, v.Store.Record(t.Context(), nil, lines))
	slices.Reverse(want)
	operators, longer, err := v.Operators(t.Context())
	pipelinetest.Must(t, err)
	if d := cmp.Diff([]string{"ann@host", "bob@host", "service@pod", "workers@host"}, operators); d != "" || longer {
		t.Errorf("operators, longer %v (-want +got):\n%s", longer, d)
	}
	but := func(unwanted func(e protocol.Event) bool) []protocol.Event {
		return slices.DeleteFunc(slices.Clone(want), unwanted)
	}
	from, to := t0.Add(time.Second), t0.Add(3*time.Second)
	for name, c := range map[string]struct {
		q    ActQuery
		want []protocol.Event
	}{
		"all":    {ActQuery{Actors: operators}, want},
		"of one": {ActQuery{Actors: operators[:1]}, but(func(e protocol.Event) bool { return e.Actor != "ann@host" })},
		"from":   {ActQuery{Actors: operators, From: from}, but(func(e protocol.Event) bool { return e.At.Before(from) })},
		"to":     {ActQuery{Actors: operators, To: to}, but(func(e protocol.Event) bool { return !e.At.Before(to) })},
		"none":   {ActQuery{}, nil},
	} {
		for _, size := range []int{1, 3, 100} {
			c.q.Limit = size
			if d := cmp.Diff(c.want, actPages(t, v, c.q)); d != "" {
				t.Errorf("%s, %d at once (-want +got):\n%s", name, size, d)
			}
		}
	}
}

// actPages reads all pages.
func actPages(t *testing.T, v Views, q ActQuery) (all []protocol.Event) {
	t.Helper()
	for {
		page := value[[]Act](t)(v.Acts(t.Context(), q))
		for _, a := range page {
			all = append(all, a.Event)
			q.After = ActCursor{At: a.At, Seq: a.Seq}
		}
		if len(page) < q.Limit {
			return all
		}
	}
}

func manyOperators(t *testing.T, v Views) {
	var lines []protocol.Event
	for i := range 201 {
		lines = append(lines, protocol.Event{At: t0, Name: protocol.EventMoved, Actor: fmt.Sprintf("service@pod-%03d", i)})
	}
	pipelinetest.Must(t, v.Store.Record(t.Context(), nil, lines))
	operators, longer, err := v.Operators(t.Context())
	if len(operators) != 200 || !longer || err != nil {
		t.Errorf("%d operators, longer %v, %v; want 200 of 201", len(operators), longer, err)
	}
	if got := value[[]Act](t)(v.Acts(t.Context(), ActQuery{Actors: operators, Limit: 300})); len(got) != 200 {
		t.Errorf("%d acts, want one of each operator", len(got))
	}
	lines = nil
	for i := range 1001 {
		lines = append(lines, protocol.Event{At: t0, Name: protocol.EventMoved, Actor: fmt.Sprintf("player %04d", i)})
	}
	pipelinetest.Must(t, v.Store.Record(t.Context(), nil, lines))
	if operators, longer, err = v.Operators(t.Context()); len(operators) > 0 || !longer || err != nil {
		t.Errorf("of 1001 players %d are operators, longer %v, %v", len(operators), longer, err)
	}
}

// The newest dead tasks come first by their last run time, with the beginning of their error.
func newestDead(t *testing.T, v Views) {
	g := newGenerator()
	var rows []task.Task
	for i := range 5 {
		row := g.done(t0.Add(time.Duration(i)*time.Minute), time.Duration(i)*time.Second)
		row.State, row.LastError = task.Dead, strings.Repeat("é", 300)
		rows = append(rows, row)
	}
	rows[2].State, rows[4].FinishedAt = task.Cancelled, time.Time{}
	write(t, v, len(rows), func(i int) task.Task { return rows[i] })
	var want []DeadTask
	for _, row := range []task.Task{rows[4], rows[3], rows[1]} {
		want = append(want, DeadTask{ID: row.ID, Kind: row.Kind, Error: strings.Repeat("é", 200), Died: row.UpdatedAt})
	}
	if d := cmp.Diff(want, value[[]DeadTask](t)(v.Dead(t.Context(), 3))); d != "" {
		t.Errorf("dead (-want +got):\n%s", d)
	}
}
