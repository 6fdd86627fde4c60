package console

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

// Percentiles count by nearest rank, and each task of a sample as many times as it stands for others.
func TestLagOfASample(t *testing.T) {
	t.Parallel()
	var done []views.DoneTask
	for i := range 200 {
		done = append(done, views.DoneTask{Weight: 1, Lag: time.Duration(200-i) * time.Millisecond})
	}
	done = append(done,
		views.DoneTask{Step: 2, Weight: 98.5, Lag: 2 * time.Millisecond},
		views.DoneTask{Step: 2, Weight: 1, Lag: -time.Millisecond, Early: true},
		views.DoneTask{Step: 2, Weight: 1.5, Lag: 1500 * time.Millisecond},
		views.DoneTask{Step: 2, Weight: 99, Lag: time.Second},
	)
	from := time.UnixMilli(1_800_000_000_000)
	at := func(minutes int64) int64 { return from.UnixMilli() + minutes*60_000 }
	diff(t, "lag", LagOver{
		Steps: []LagStep{
			{AtMs: at(0), Fired: 200, P50: 100, P90: 180, P99: 198, Max: 200},
			{AtMs: at(1)},
			{AtMs: at(2), Fired: 200, P50: 1000, P90: 1000, P99: 1000, Max: 1500, Late: 2, Early: 1},
		},
		Buckets: []LagBucket{
			{1, 2}, {2, 100}, {5, 3}, {10, 5}, {20, 10}, {50, 30}, {100, 50}, {200, 100}, {500, 0}, {1000, 99}, {2000, 2},
		},
		Late: 2, Fired: 400, P50: 101, P99: 1000, Max: 1500, Sampled: true,
	}, lagOver(from, time.Minute, 3, done))
	diff(t, "no lag", LagOver{Steps: []LagStep{{AtMs: at(0)}}, Buckets: []LagBucket{}}, lagOver(from, time.Minute, 1, nil))
}

// A handler's time is known of some tasks only, and the others say nothing about it.
func TestTimesOfHandlers(t *testing.T) {
	t.Parallel()
	of := func(kind string, weight float64, lag, handler int, timed bool) views.DoneTask {
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		return views.DoneTask{Group: kind, Weight: weight, Lag: ms(lag), Handler: ms(handler), Timed: timed}
	}
	over := lagOver(time.UnixMilli(0), time.Minute, 1, []views.DoneTask{
		of("mail", 90, 1, 700, true), of("mail", 9, 3, 20, true), of("mail", 1, 4, 900, true), of("mail", 10, 5, 0, false),
	})
	if over.Fired != 110 || over.P99 != 5 || over.Timed != 100 || over.HandlerP50 != 700 || over.HandlerP99 != 700 {
		t.Errorf("of handlers: %+v", over)
	}
	var many []views.DoneTask
	for i := range 2 * maxGroups {
		many = append(many, of(fmt.Sprint(i), float64(i), 1, 1, true))
	}
	kept := largest(many)
	_, most := kept["99"]
	_, fewest := kept["49"]
	if len(kept) != maxGroups || !most || fewest {
		t.Errorf("of many groups: %d, with the largest: %v, with a small one: %v", len(kept), most, fewest)
	}
}

func TestLagOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, c := t.Context(), w.console()
	now, err := w.store.Now(ctx, nil)
	pipelinetest.Must(t, err)
	row := w.due(now, -time.Second)
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{row}, now.Add(-700*time.Millisecond))
	})
	w.dead()
	over, err := c.LagOver(ctx, LagQuery{})
	pipelinetest.Must(t, err)
	if n := len(over.Steps); n < 61 || n > 62 || over.Steps[0].AtMs%60_000 != 0 {
		t.Errorf("%d steps from %d on, want an hour by minutes", n, over.Steps[0].AtMs)
	}
	fired := int64(0)
	for _, s := range over.Steps {
		if fired += s.Fired; s.Fired == 1 && s.Max != 300 {
			t.Errorf("got %+v, want a lag of 300 ms", s)
		}
	}
	if fired != 1 || over.Fired != 1 || over.Late != 0 {
		t.Errorf("got %d fired in the steps, %d in all, %d late; want 1, 1, 0", fired, over.Fired, over.Late)
	}
	over, err = c.LagOver(ctx, LagQuery{By: ByKind})
	pipelinetest.Must(t, err)
	if one := over.Groups[row.Kind]; len(over.Groups) != 1 || one.Fired != 1 || one.Max != 300 || len(one.Steps) != len(over.Steps) {
		t.Errorf("by kind: %+v", over.Groups)
	}
	for _, q := range []LagQuery{{Kind: "other"}, {Queue: "other"}} {
		over, err := c.LagOver(ctx, q)
		pipelinetest.Must(t, err)
		if over.Fired != 0 {
			t.Errorf("%+v: %d fired", q, over.Fired)
		}
	}
	over, err = c.LagOver(ctx, LagQuery{Span: maxLagSteps * time.Second, Step: time.Second})
	if err != nil || len(over.Steps) < maxLagSteps {
		t.Errorf("%d steps, %v", len(over.Steps), err)
	}
	for _, bad := range []struct {
		field string
		q     LagQuery
	}{{"step", LagQuery{Step: time.Millisecond}}, {"span", LagQuery{Span: 24 * time.Hour}}, {"span", LagQuery{Span: time.Second}}, {"by", LagQuery{By: "owner"}}} {
		_, err := c.LagOver(ctx, bad.q)
		if wrong, ok := errors.AsType[*task.FieldError](err); !ok || wrong.Field != bad.field {
			t.Errorf("%+v: got %v", bad.q, err)
		}
	}
}
