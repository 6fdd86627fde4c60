package console

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m, pipelinetest.VerifyGoroutines())) }

type world struct {
	t     *testing.T
	store *worldtest.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t, worldtest.NewStore(t, "test", store.Options{})}
}

// console returns a console without an index: its tests are about rows.
func (w *world) console() *Console {
	w.t.Helper()
	client, err := schedule.New(schedule.Config{}, w.store, worldtest.Nowhere{}, worldtest.Nowhere{})
	pipelinetest.Must(w.t, err)
	w.t.Cleanup(func() { client.Close(context.Background()) })
	return New(Config{Actor: "ann@host", Queues: []string{"default", "mails"}}, w.store.Store, nil, client)
}

var (
	kind    = task.NewKind[int]("meal", task.MaxAttempts(3))
	errSick = errors.New("sick")
)

// pending makes a task.
func (w *world) pending(opts ...task.Option) task.Task {
	w.t.Helper()
	now, err := w.store.Now(w.t.Context(), nil)
	pipelinetest.Must(w.t, err)
	row, err := kind.New("ann", 1, task.In(time.Hour), opts...).Resolve(now)
	pipelinetest.Must(w.t, err)
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		made, err := w.store.Insert(ctx, tx, []task.Task{row})
		if err == nil {
			row = made[0]
		}
		return err
	})
	return row
}

// dead makes a dead task.
func (w *world) dead(opts ...task.Option) task.Task {
	w.t.Helper()
	row := w.pending(opts...)
	row.Attempt = 2
	row = transition.Fail(row, errSick, 0, row.UpdatedAt)
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error { return worldtest.Save(ctx, w.store.Store, tx, row) })
	return row
}

// life returns a task's lines of history, or the lines that belong to no task, as "actor event: detail".
func (w *world) life(id task.ID) []string {
	w.t.Helper()
	text, args := "SELECT actor, event, detail FROM duetime_history WHERE task IS NULL ORDER BY seq", []any{}
	if !id.IsZero() {
		text, args = "SELECT actor, event, detail FROM duetime_history WHERE task = ? ORDER BY seq", []any{id[:]}
	}
	var lines []struct{ Actor, Event, Detail string }
	pipelinetest.Must(w.t, w.store.DB().SelectContext(w.t.Context(), &lines, text, args...))
	var out []string
	for _, l := range lines {
		out = append(out, l.Actor+" "+l.Event+": "+l.Detail)
	}
	return out
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestRetryOfADeadTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dead := w.dead(task.Key("a"))
	_, err := w.console().Retry(t.Context(), dead.ID, 0)
	pipelinetest.Must(t, err)
	row := w.store.Row(dead.ID)
	if row.State != task.Pending || row.Attempt != 0 || row.Version != dead.Version+1 || row.DedupKey != "ka" || row.DueAt.After(row.UpdatedAt) {
		t.Errorf("retried: %+v", row)
	}
	diff(t, "history", []string{"ann@host retried: " + transition.Changed(dead, row).Detail}, w.life(dead.ID))
}

// A task of a blocked owner stays dead. It can be discarded.
func TestRetryForABlockedOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.console()
	dead := w.dead()
	w.store.Exec("INSERT INTO duetime_blocks (owner, at, actor) VALUES ('ann', 1, 'test')")
	if _, err := o.Retry(t.Context(), dead.ID, 0); !errors.Is(err, task.ErrOwnerBlocked) {
		t.Errorf("retried: %v, want %v", err, task.ErrOwnerBlocked)
	}
	_, err := o.Discard(t.Context(), dead.ID, 0)
	pipelinetest.Must(t, err)
	row := w.store.Row(dead.ID)
	if row.State != task.Cancelled || row.LastError != "sick" || row.FinishedAt.IsZero() {
		t.Errorf("discarded: %+v", row)
	}
	diff(t, "history", []string{"ann@host discarded: was dead after 3 attempts: sick"}, w.life(dead.ID))
}

func TestRetryOfOneTaskSaysWhyNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.console()
	waits, done, taken, dead := w.pending(), w.pending(), w.dead(task.Key("k")), w.dead()
	w.pending(task.Key("k"))
	w.store.InTx(func(ctx context.Context, tx *sqlx.Tx) error {
		return worldtest.Finish(ctx, w.store.Store, tx, []task.Task{done}, done.UpdatedAt)
	})
	for _, c := range []struct {
		id   task.ID
		want error
	}{
		{task.NewID(), task.ErrNotFound},
		{waits.ID, task.ErrNotDead},
		{done.ID, task.ErrAlreadyDone},
		{taken.ID, task.ErrKeyTaken},
		{dead.ID, nil},
		{dead.ID, task.ErrNotDead},
	} {
		if _, err := o.Retry(t.Context(), c.id, 0); !errors.Is(err, c.want) {
			t.Errorf("error %v, want %v", err, c.want)
		}
	}
	diff(t, "lines", 1, len(w.life(dead.ID)))
}

func TestPausesAndResignationsAreWrittenDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.console()
	if _, err := o.askToResign(t.Context(), "event", 0); !errors.Is(err, ErrNeverLed) {
		t.Errorf("nobody led: %v", err)
	}
	for range 3 {
		_, err := w.store.Take(t.Context(), "event")
		pipelinetest.Must(t, err)
	}
	for _, want := range []bool{true, false} {
		changed, err := o.Pause(t.Context(), "mails")
		pipelinetest.Must(t, err)
		diff(t, "paused anew", want, changed)
	}
	for _, want := range []bool{true, false} {
		changed, err := o.Resume(t.Context(), "mails")
		pipelinetest.Must(t, err)
		diff(t, "resumed", want, changed)
	}
	epoch, err := o.askToResign(t.Context(), "event", 3)
	pipelinetest.Must(t, err)
	diff(t, "epoch", int64(3), epoch)
	asked, err := w.store.Resigned(t.Context(), "event")
	pipelinetest.Must(t, err)
	diff(t, "asked", int64(3), asked)
	_, err = w.store.Take(t.Context(), "event")
	pipelinetest.Must(t, err)
	again, err := o.Resign(t.Context(), "event", 3) // as a form that is sent twice does
	pipelinetest.Must(t, err)
	diff(t, "terms", [2]int64{3, 4}, [2]int64{again.Before, again.Epoch})
	asked, err = w.store.Resigned(t.Context(), "event")
	pipelinetest.Must(t, err)
	diff(t, "asked once more", int64(3), asked)
	pipelinetest.Must(t, o.inTx(t.Context(), func(_ *sqlx.Tx, changes *ledger.Tx) error {
		changes.Note(event(changes, protocol.EventRebuild, "shard 3"))
		return nil
	}))
	diff(t, "history", []string{
		"ann@host paused: mails", "ann@host resumed: mails", "ann@host resign: event, epoch 3", "ann@host rebuild: shard 3",
	}, w.life(task.ID{}))
}

func TestPauseUntil(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o, ctx := w.console(), t.Context()
	ann, mails := PauseOf{Owner: "ann", Queue: "mails"}, PauseOf{Queue: "mails"}
	ends, err := o.PauseUntil(ctx, ann, task.In(time.Hour))
	pipelinetest.Must(t, err)
	still, err := o.PauseUntil(ctx, ann, task.In(time.Minute)) // never shorter
	pipelinetest.Must(t, err)
	diff(t, "the end", ends, still)
	queueEnds, err := o.PauseUntil(ctx, mails, task.In(time.Minute))
	pipelinetest.Must(t, err)
	pauses, err := o.Pauses(ctx)
	pipelinetest.Must(t, err)
	if len(pauses) != 2 || pauses[0].Of() != mails || pauses[1].Of() != ann || pauses[1].Actor != "ann@host" {
		t.Fatalf("pauses: %+v", pauses)
	}
	diff(t, "ends", []*int64{new(queueEnds.UnixMilli()), new(ends.UnixMilli())}, []*int64{pauses[0].UntilMs, pauses[1].UntilMs})
	changed, err := o.Pause(ctx, "mails") // until a resume
	pipelinetest.Must(t, err)
	diff(t, "paused for longer", true, changed)
	endless, err := o.PauseUntil(ctx, mails, task.In(time.Hour))
	pipelinetest.Must(t, err)
	diff(t, "has no end", true, endless.IsZero())
	for _, of := range []PauseOf{ann, mails} {
		for _, want := range []bool{true, false} {
			changed, err := o.EndPause(ctx, of)
			pipelinetest.Must(t, err)
			diff(t, "resumed", want, changed)
		}
	}
	for _, c := range []struct {
		of    PauseOf
		end   task.When
		field string
	}{
		{PauseOf{}, task.In(time.Hour), "pause"},
		{PauseOf{Queue: "mials", Owner: "ann"}, task.In(time.Hour), "queue"},
		{PauseOf{Owner: "{ann"}, task.In(time.Hour), "owner"},
		{PauseOf{Kind: "meal"}, task.In(-time.Hour), "until"},
		{PauseOf{Kind: "meal"}, task.In(32 * 24 * time.Hour), "until"},
		{PauseOf{Kind: "meal"}, task.When{}, "until"},
	} {
		_, err := o.PauseUntil(ctx, c.of, c.end)
		if wrong, is := errors.AsType[*task.FieldError](err); !is || wrong.Field != c.field {
			t.Errorf("%+v: %v, want an error of %s", c.of, err, c.field)
		}
	}
	if _, err := o.EndPause(ctx, PauseOf{Queue: "mials"}); err == nil {
		t.Error("an unknown queue is resumed")
	}
	until := func(at time.Time) string { return " until " + at.Format("2006-01-02T15:04:05.000Z") }
	diff(t, "history", []string{
		"ann@host paused: queue=mails, owner=ann" + until(ends), "ann@host paused: mails" + until(queueEnds), "ann@host paused: mails",
		"ann@host resumed: queue=mails, owner=ann", "ann@host resumed: mails",
	}, w.life(task.ID{}))
}

// A change and its line of history commit together: without the line there is no change.
func TestNoChangeWithoutItsLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dead := w.dead()
	w.store.Exec("DROP TABLE duetime_history")
	o := w.console()
	if _, err := o.Retry(t.Context(), dead.ID, 0); err == nil {
		t.Error("retried without a line")
	}
	if _, err := o.Pause(t.Context(), "mails"); err == nil {
		t.Error("paused without a line")
	}
	diff(t, "row", dead, w.store.Row(dead.ID))
	paused, err := w.store.Paused(t.Context())
	pipelinetest.Must(t, err)
	diff(t, "paused", 0, len(paused))
}
