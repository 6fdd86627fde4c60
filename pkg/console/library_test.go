package console

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// serving returns the console of a service, whose client has another actor.
func (w *world) serving(actor string) *Console {
	w.t.Helper()
	client, err := schedule.New(schedule.Config{Actor: "robot"}, w.store, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { client.Close(context.Background()) })
	return New(Config{Actor: actor, Queues: []string{"default", "mails"}}, w.store.Store, nil, client)
}

// Whatever the console changes, through the client or without it, bears the console's actor.
func TestActors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	plain := w.serving("")
	host, err := os.Hostname()
	pipelinetest.Must(t, err)
	for _, c := range []struct {
		console *Console
		actor   string
	}{{plain, "service@" + host}, {plain.As("ann@support"), "ann@support"}} {
		moved, dead := w.pending(), w.dead()
		_, err := c.console.Shift(ctx, moved.ID, time.Minute)
		pipelinetest.Must(t, err)
		_, err = c.console.Cancel(ctx, moved.ID, 0)
		pipelinetest.Must(t, err)
		_, err = c.console.Retry(ctx, dead.ID, 0)
		pipelinetest.Must(t, err)
		_, err = c.console.Pause(ctx, "mails")
		pipelinetest.Must(t, err)
		_, err = c.console.Resume(ctx, "mails")
		pipelinetest.Must(t, err)
		o, err := c.console.Bulk(ctx, task.Operation{Verb: task.VerbCancel, Filter: task.Filter{All: true}})
		pipelinetest.Must(t, err)
		_, err = c.console.PauseOperation(ctx, o.ID)
		pipelinetest.Must(t, err)
		if o.Actor != c.actor {
			t.Errorf("the operation is of %s, want %s", o.Actor, c.actor)
		}
		lines := slices.Concat(w.life(moved.ID), w.life(dead.ID), w.life(o.ID), w.life(task.ID{})[len(w.life(task.ID{}))-2:])
		if len(lines) != 7 {
			t.Errorf("got %d lines, want 7: %q", len(lines), lines)
		}
		for _, line := range lines {
			if !strings.HasPrefix(line, c.actor+" ") {
				t.Errorf("got %q, want the actor %s", line, c.actor)
			}
		}
	}
}

// What a tool refuses as a wrong flag, the console refuses as a field.
func TestInputOutsideTheLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, c := t.Context(), w.console()
	for field, do := range map[string]func(n int) error{
		"limit of a list":        func(n int) error { _, err := c.List(ctx, Filter{Limit: n}); return err },
		"limit of recurrences":   func(n int) error { _, err := c.Recurrences(ctx, RecurrenceFilter{Limit: n}); return err },
		"shards of a rebuild":    func(n int) error { return c.Rebuild(ctx, []int{n}, nil) },
		"shards of a rebuild, 0": func(int) error { return c.Rebuild(ctx, nil, nil) },
	} {
		for _, n := range []int{-1, MaxPage + 1} {
			wrong, ok := errors.AsType[*task.FieldError](do(n))
			if want, _, _ := strings.Cut(field, " "); !ok || wrong.Field != want {
				t.Errorf("%s %d: got %v", field, n, wrong)
			}
		}
	}
	_, err := c.List(ctx, Filter{Labels: map[string]string{"City": "Rome"}})
	if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != "label" {
		t.Errorf("a label that is none: %v", err)
	}
	if _, err := c.List(ctx, Filter{RunBefore: time.Now()}); err == nil {
		t.Error("a bound of the run time was taken")
	}
	if _, err := c.List(ctx, Filter{After: "nowhere"}); err == nil {
		t.Error("a cursor that is none was taken")
	}
	for _, place := range []string{
		"nowhere", "{}", "ann{}", "{}tea", "ann{}tea{}", "ann{}\xff", "1767225600000_" + task.ID{}.String(),
	} {
		_, err := c.Recurrences(ctx, RecurrenceFilter{After: place})
		if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != "cursor" {
			t.Errorf("the place %q in a list of recurrences: %v", place, err)
		}
	}
	if page, err := c.Recurrences(ctx, RecurrenceFilter{}); err != nil || len(page.Recurrences) != 0 {
		t.Errorf("without a limit: %+v, %v", page, err)
	}
}
