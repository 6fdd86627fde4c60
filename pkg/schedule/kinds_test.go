package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/kinds"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// A kind of a queue that the configuration lacks, or of another queue than its handler's, is refused by every way in.
func TestKindsThatNobodyRunsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	known := kinds.New([]string{"default", "mails"})
	c, err := schedule.New(schedule.Config{Kinds: known, Logger: slog.New(slog.DiscardHandler)}, w.store, w, w)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	handled := task.NewKind[int]("mail.send", task.Queue("mails"))
	pipelinetest.Must(t, known.Handle([]task.KindInfo{handled.Info()}))

	_, err = c.Schedule(ctx, handled.New("ann", 1, task.In(time.Hour)))
	pipelinetest.Must(t, err)
	for name, test := range map[string]struct {
		kind  task.Kind[int]
		field string
		want  string
	}{
		"queue": {task.NewKind[int]("order.expire", task.Queue("orders")), "queue", `"orders" of kind order.expire is none of the configuration's: default, mails`},
		"kind":  {task.NewKind[int]("mail.send"), "kind", `mail.send is declared twice, for queue "default" and, with its handler, for queue "mails"`},
	} {
		in := func(opts ...task.Option) task.Spec { return test.kind.New("ann", 1, task.In(time.Hour), opts...) }
		many := func(specs ...task.Spec) (rows []task.Task, err error) {
			err = c.InTx(ctx, func(tx *schedule.Tx) error { rows, err = tx.ScheduleMany(ctx, specs); return err })
			return rows, err
		}
		for way, do := range map[string]func() error{
			"alone":      func() error { _, err := c.Schedule(ctx, in()); return err },
			"with a key": func() error { _, err := c.Schedule(ctx, in(task.Key("k"))); return err },
			"many":       func() error { _, err := many(in(), in()); return err },
			"the second": func() error {
				_, err := many(handled.New("ann", 1, task.In(0)), in())
				return err
			},
			"transaction": func() error {
				return c.InTx(ctx, func(tx *schedule.Tx) error { _, err := tx.Schedule(ctx, in()); return err })
			},
			"join": func() error { _, err := c.Join(begin(t, foreign(t, w))).Schedule(ctx, in()); return err },
		} {
			err := do()
			var field *task.FieldError
			if !errors.As(err, &field) || field.Field != test.field || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %s: got %v, want %s %s", name, way, err, test.field, test.want)
			}
		}
	}
	if n := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); n != 1 {
		t.Errorf("%d tasks, want the one that may be", n)
	}
	other := task.NewKind[int]("mail.send", task.Queue("default"))
	if err := known.Handle([]task.KindInfo{other.Info()}); err == nil || !strings.Contains(err.Error(), "mail.send") {
		t.Errorf("a second handler of the kind on another queue: got %v, want a refusal", err)
	}
}
