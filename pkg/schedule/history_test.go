package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// life returns the lines of a task's history as "actor event detail".
func (w *world) life(t testing.TB, id task.ID) []string {
	t.Helper()
	events, err := w.store.History(t.Context(), id, 100)
	pipelinetest.Must(t, err)
	lines := []string{}
	for _, e := range events {
		lines = append(lines, e.Actor+" "+e.Name+" "+e.Detail)
	}
	return lines
}

func movedBy(d time.Duration, to task.Task) string {
	return fmt.Sprintf("service moved by %v to %s", d, to.DueAt.Format("2006-01-02T15:04:05.000Z07:00"))
}

func TestChangesBecomeHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alone, inTx, joined := w.make(t, "ann"), w.make(t, "bob"), w.make(t, "cid")
	keyed := w.make(t, "dan", task.Key("k"))
	untouched := w.make(t, "eve")

	sooner, err := w.Shift(t.Context(), alone.ID, -time.Minute)
	pipelinetest.Must(t, err)
	_, err = w.Cancel(t.Context(), alone.ID)
	pipelinetest.Must(t, err)
	var later task.Task
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		moved, err := tx.ShiftOwner(t.Context(), "bob", "", time.Hour)
		later = moved[0]
		return err
	}))
	errNo := errors.New("no")
	wantIs(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.Cancel(t.Context(), inTx.ID)
		return errors.Join(err, errNo)
	}), errNo)
	raw, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	j := w.Join(raw)
	again, err := j.Shift(t.Context(), joined.ID, -time.Second)
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, j.Commit(t.Context()))
	byKey, err := w.Schedule(t.Context(), meal.New("dan", 1, task.At(keyed.DueAt.Add(time.Hour)), task.KeyMove("k")))
	pipelinetest.Must(t, err)

	w.Close(t.Context()) // writes what waits
	for _, c := range []struct {
		id   task.ID
		want []string
	}{
		{alone.ID, []string{movedBy(-time.Minute, sooner), "service cancelled "}},
		{inTx.ID, []string{movedBy(time.Hour, later)}},
		{joined.ID, []string{movedBy(-time.Second, again)}},
		{keyed.ID, []string{movedBy(time.Hour, byKey)}},
		{untouched.ID, []string{}},
	} {
		if d := cmp.Diff(c.want, w.life(t, c.id)); d != "" {
			t.Errorf("history (-want +got):\n%s", d)
		}
	}
}

func TestHistoryComesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.make(t, "ann")
	_, err := w.Cancel(t.Context(), made.ID)
	pipelinetest.Must(t, err)
	pipelinetest.Await(t, "the line", func() bool { return len(w.life(t, made.ID)) == 1 })
}

func TestToldBehindASavepointThatIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, behind := w.make(t, "ann"), w.make(t, "bob")
	pipelinetest.Must(t, w.InTx(t.Context(), func(tx *schedule.Tx) error {
		_, err := tx.Cancel(t.Context(), before.ID)
		pipelinetest.Must(t, err)
		_, err = tx.ExecContext(t.Context(), "SAVEPOINT one")
		pipelinetest.Must(t, err)
		mark := insideOf(tx).Ledger().Mark()
		_, err = tx.Cancel(t.Context(), behind.ID)
		pipelinetest.Must(t, err)
		pipelinetest.Must(t, insideOf(tx).Ledger().Record(t.Context()))
		_, err = tx.ExecContext(t.Context(), "ROLLBACK TO SAVEPOINT one")
		pipelinetest.Must(t, err)
		insideOf(tx).Ledger().Rewind(mark)
		return nil
	}))
	w.Close(t.Context())
	if d := cmp.Diff([]string{"service cancelled "}, w.life(t, before.ID)); d != "" {
		t.Errorf("what was changed before the savepoint (-want +got):\n%s", d)
	}
	if got := w.life(t, behind.ID); len(got) > 0 {
		t.Errorf("what the savepoint took back left %v", got)
	}
}

func TestToldInTheTransactionIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, kept := w.make(t, "ann"), w.make(t, "bob")
	tell := func(id task.ID, fail error) error {
		return w.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.Cancel(t.Context(), id)
			return errors.Join(err, insideOf(tx).Ledger().Record(t.Context()), fail)
		})
	}
	errNo := errors.New("no")
	wantIs(t, tell(kept.ID, errNo), errNo)
	pipelinetest.Must(t, tell(made.ID, nil))
	if d := cmp.Diff([]string{"service cancelled "}, w.life(t, made.ID)); d != "" {
		t.Errorf("right after the commit (-want +got):\n%s", d)
	}
	w.Close(t.Context())
	if d := cmp.Diff([]string{"service cancelled "}, w.life(t, made.ID)); d != "" {
		t.Errorf("after Close (-want +got):\n%s", d)
	}
	if got := w.life(t, kept.ID); len(got) > 0 {
		t.Errorf("a rolled-back change left %v", got)
	}
}

// stuck is a store that takes no history until it is let.
type stuck struct {
	*store.Store
	mu  sync.Mutex
	let error
	now chan struct{}
}

func (s *stuck) Record(ctx context.Context, _ sqlx.ExtContext, _ []protocol.Event) error {
	select {
	case <-s.now:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.let
}

func TestHistoryThatIsRefusedDelaysNobodyAndIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reg := prometheus.NewRegistry()
	s := &stuck{Store: w.store.Store, let: errors.New("no room"), now: make(chan struct{})}
	c, err := schedule.New(schedule.Config{Logger: slog.New(slog.DiscardHandler), Metrics: reg}, s, w, w)
	pipelinetest.Must(t, err)
	for range 10 {
		_, err := c.Cancel(t.Context(), w.make(t, "ann").ID) // would not return
		pipelinetest.Must(t, err)
	}
	close(s.now)
	c.Close(t.Context())
	_, err = c.Cancel(t.Context(), w.make(t, "ann").ID)
	pipelinetest.Must(t, err)
	if n := worldtest.Sum(t, reg, "duetime_history_dropped_total"); n != 11 {
		t.Errorf("dropped %v lines, want 11", n)
	}
}
