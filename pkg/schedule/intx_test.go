package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

func TestIsRetryable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nil":             {nil, false},
		"deadlock":        {fmt.Errorf("feed: %w", &mysql.MySQLError{Number: 1213}), true},
		"lock wait":       {&mysql.MySQLError{Number: 1205}, true},
		"other server":    {&mysql.MySQLError{Number: 1062}, false},
		"running":         {fmt.Errorf("cancel: %w", task.ErrRunning), true},
		"rolled back":     {schedule.ErrRolledBack, true},
		"poisoned":        {&store.PoisonedError{Cause: &mysql.MySQLError{Number: 1213}}, true},
		"cut off":         {&store.PoisonedError{Cause: context.Canceled}, false},
		"commit unknown":  {fmt.Errorf("%w: %w", schedule.ErrCommitUnknown, &mysql.MySQLError{Number: 1213}), false},
		"already done":    {task.ErrAlreadyDone, false},
		"field":           {&task.FieldError{Field: "owner"}, false},
		"context":         {context.DeadlineExceeded, false},
		"something joint": {errors.Join(errors.New("a"), &mysql.MySQLError{Number: 1213}), true},
	} {
		if got := schedule.IsRetryable(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestDeadlocksEndAllDoneExactlyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(t, 4)
	const workers, rounds = 8, 10
	var mu sync.Mutex
	tries := 0
	var wg sync.WaitGroup
	for n := range workers {
		wg.Go(func() {
			for round := range rounds {
				a := (n + round) % 4
				b := (a + 1 + n%3) % 4
				err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
					mu.Lock()
					tries++
					mu.Unlock()
					if err := add(t.Context(), tx, a); err != nil {
						return err
					}
					if _, err := tx.Schedule(t.Context(), meal.New("ann", n, task.In(time.Hour))); err != nil {
						return err
					}
					return add(t.Context(), tx, b)
				})
				if err != nil {
					t.Errorf("worker %d, round %d: %v", n, round, err)
				}
			}
		})
	}
	wg.Wait()
	if tries == workers*rounds {
		t.Error("no deadlock happened: this test shows nothing")
	}
	if got := w.store.Number("SELECT SUM(n) FROM counters"); got != 2*workers*rounds {
		t.Errorf("counters hold %d, want %d", got, 2*workers*rounds)
	}
	if got := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); got != workers*rounds {
		t.Errorf("%d tasks, want %d", got, workers*rounds)
	}
	w.Close(t.Context()) // after the last put
	if got := len(w.Puts()); got != workers*rounds {
		t.Errorf("%d tasks were put, want %d: what a lost try scheduled doesn't exist", got, workers*rounds)
	}
}

// deadlock makes victim, a statement run twice by one transaction, find itself in a deadlock with another transaction
// and lose it. It returns the error of the victim's second statement.
func deadlock(t testing.TB, w *world, victim func(id int) error) error {
	t.Helper()
	other, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	_, err = other.ExecContext(t.Context(), "SET SESSION innodb_lock_wait_timeout = 60") // it waits until the victim is lost
	pipelinetest.Must(t, err)
	// The lighter transaction is the victim: this one weighs more.
	for id := 2; id < 40; id++ {
		pipelinetest.Must(t, add(t.Context(), other, id))
	}
	pipelinetest.Must(t, add(t.Context(), other, 0))
	pipelinetest.Must(t, victim(1))
	done := make(chan error, 1)
	go func() { done <- add(t.Context(), other, 1) }()
	lost := victim(0)
	pipelinetest.Must(t, <-done)
	pipelinetest.Must(t, other.Rollback())
	return lost
}

func TestSwallowedDeadlockIsRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.counters(t, 40)
	tries := 0
	specs := []task.Spec{meal.New("ann", 1, task.In(time.Hour)), meal.New("ann", 2, task.In(time.Hour))}
	err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
		tries++
		if _, err := tx.Schedule(t.Context(), specs[0]); err != nil {
			return err
		}
		if tries == 1 {
			lost := deadlock(t, w, func(id int) error { return add(t.Context(), tx, id) })
			if !schedule.IsRetryable(lost) {
				t.Errorf("the deadlock came out as %v", lost)
			}
			if _, err := tx.Schedule(t.Context(), specs[1]); err == nil {
				t.Error("a change in the lost transaction was accepted")
			}
			if w.exists(t, specs[1].ID()) {
				t.Error("a change in the lost transaction committed by itself")
			}
			return nil // swallowed
		}
		return add(t.Context(), tx, 1)
	})
	pipelinetest.Must(t, err)
	if tries != 2 {
		t.Errorf("fn ran %d times, want 2", tries)
	}
	if got := w.store.Number("SELECT n FROM counters WHERE id = 1"); got != 1 {
		t.Errorf("counter is %d, want 1", got)
	}
	if got := w.store.Number("SELECT COUNT(*) FROM duetime_tasks"); got != 1 || len(w.put(specs[0].ID())) != 1 {
		t.Errorf("%d tasks, put %v; want the one of the second try", got, w.put(specs[0].ID()))
	}
}

func TestLostCommitIsNeverRunAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cut       func(p *pipelinetest.ToxicProxy)
		committed bool
	}{
		"answer lost":  {(*pipelinetest.ToxicProxy).CutDownstream, true},
		"request lost": {(*pipelinetest.ToxicProxy).CutUpstream, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newWorld(t)
			direct.counters(t, 1)
			w, proxy := behindProxy(t, direct)

			runs := 0
			spec := meal.New("ann", 1, task.In(time.Hour))
			err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
				runs++
				if err := add(t.Context(), tx, 0); err != nil {
					return err
				}
				if _, err := tx.Schedule(t.Context(), spec); err != nil {
					return err
				}
				test.cut(proxy)
				return nil
			})
			wantIs(t, err, schedule.ErrCommitUnknown)
			if schedule.IsRetryable(err) {
				t.Error("a lost commit is called retryable")
			}
			if runs != 1 {
				t.Errorf("fn ran %d times, want 1", runs)
			}
			pipelinetest.Await(t, "compensation", func() bool { return w.compensated(spec.ID()) })
			if test.committed {
				pipelinetest.Await(t, "the commit", func() bool { return direct.exists(t, spec.ID()) })
			} else if direct.exists(t, spec.ID()) {
				t.Error("a commit that was never sent took effect")
			}
			if put := w.put(spec.ID()); len(put) != 0 {
				t.Errorf("versions %v were put though nobody knows whether they exist", put)
			}
		})
	}
}

func TestOnlyACommittedTryIsPut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := errors.New("no food")
	spec := meal.New("ann", 1, task.In(time.Hour))
	err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
		if _, err := tx.Schedule(t.Context(), spec); err != nil {
			return err
		}
		return refused
	})
	wantIs(t, err, refused)
	func() {
		defer func() {
			if got := recover(); got != "boom" {
				t.Errorf("recovered %v, want boom", got)
			}
		}()
		_ = w.InTx(t.Context(), func(tx *schedule.Tx) error {
			if _, err := tx.Schedule(t.Context(), spec); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	ctx, cancel := context.WithCancel(t.Context())
	err = w.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.Schedule(ctx, spec)
		cancel()
		return err
	})
	wantIs(t, err, context.Canceled)
	if w.exists(t, spec.ID()) || len(w.put(spec.ID())) > 0 || w.compensated(spec.ID()) {
		t.Error("a task of a rolled-back try exists, was put, or was compensated")
	}
	// The connections are as good as before.
	_, err = w.Schedule(t.Context(), spec)
	pipelinetest.Must(t, err)
}

func TestIndexAwayChangesNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.away = true
	row := w.make(t, "ann")
	pipelinetest.Await(t, "compensation", func() bool { return w.compensated(row.ID) })
}

func TestLockedTaskIsRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	row := w.make(t, "ann", task.Key("k"))
	holder, err := w.store.Begin(t.Context())
	pipelinetest.Must(t, err)
	defer func() { _ = holder.Rollback() }()
	_, err = w.store.Lock(t.Context(), holder, []task.ID{row.ID})
	pipelinetest.Must(t, err)
	calls := map[string]func(ctx context.Context, tx *schedule.Tx) error{
		"cancel": func(ctx context.Context, tx *schedule.Tx) error { _, err := tx.Cancel(ctx, row.ID); return err },
		"owner":  func(ctx context.Context, tx *schedule.Tx) error { _, err := tx.CancelOwner(ctx, "ann", ""); return err },
		"schedule": func(ctx context.Context, tx *schedule.Tx) error {
			_, err := tx.Schedule(ctx, meal.New("ann", 1, task.In(0), task.KeyMove("k")))
			return err
		},
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			runs := 0
			err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
				runs++
				_ = call(t.Context(), tx)
				return nil // swallowed: the transaction is over all the same
			})
			if !errors.Is(err, task.ErrRunning) || !schedule.IsRetryable(err) {
				t.Errorf("%s: error is %v, want a retryable %v", name, err, task.ErrRunning)
			}
			if strings.Count(fmt.Sprint(err), task.ErrRunning.Error()) != 1 {
				t.Errorf("%s: error says it twice: %v", name, err)
			}
			if runs != 1 {
				t.Errorf("%s: ran %d times, want 1", name, runs)
			}
		})
	}
	wg.Wait()
	pipelinetest.Must(t, holder.Rollback())
	if _, err := w.Cancel(t.Context(), row.ID); err != nil {
		t.Errorf("cancel after the lock: %v", err)
	}
}

func TestTriesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	runs := 0
	lost := &mysql.MySQLError{Number: 1213, Message: "Deadlock found"}
	err := w.InTx(t.Context(), func(*schedule.Tx) error { runs++; return lost })
	if runs != 10 || !errors.Is(err, lost) || !schedule.IsRetryable(err) {
		t.Errorf("%d tries, then %v; want 10 and the retryable deadlock", runs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	runs = 0
	err = w.InTx(ctx, func(*schedule.Tx) error { runs++; cancel(); return lost })
	if runs != 1 || !errors.Is(err, context.Canceled) || !errors.Is(err, lost) {
		t.Errorf("%d tries, then %v; want 1, the cancellation and the deadlock", runs, err)
	}
}

// A function's own statement ends the transaction: what was committed by it is neither called undone nor done.
func TestStatementEndsTheTransaction(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"fails": errors.New("sick"), "succeeds": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := multiStatements(t)
			spec := meal.New("ann", 1, task.In(time.Hour))
			runs := 0
			err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
				runs++
				_, err := tx.Schedule(t.Context(), spec)
				pipelinetest.Must(t, err)
				_, err = tx.ExecContext(t.Context(), "DO 1; COMMIT")
				pipelinetest.Must(t, err)
				return answer
			})
			if !errors.Is(err, schedule.ErrCommitUnknown) || answer != nil && !errors.Is(err, answer) || runs != 1 {
				t.Errorf("%d runs, then %v; want one, and ErrCommitUnknown with the function's error", runs, err)
			}
			pipelinetest.Await(t, "compensated", func() bool { return w.compensated(spec.ID()) })
		})
	}
}

// Changes of tasks that a statement has undone unseen are never told as done.
func TestChangesUndoneUnseen(t *testing.T) {
	t.Parallel()
	w := multiStatements(t)
	moved := w.make(t, "ann")
	for _, inner := range []bool{true, false} {
		err := w.InTx(t.Context(), func(tx *schedule.Tx) error {
			_, err := tx.ExecContext(t.Context(), "DO 1; SAVEPOINT a")
			pipelinetest.Must(t, err)
			if inner {
				_, err = tx.Shift(t.Context(), moved.ID, time.Hour)
				pipelinetest.Must(t, err)
			}
			_, err = tx.ExecContext(t.Context(), "DO 1; ROLLBACK TO a")
			return err
		})
		if errors.Is(err, schedule.ErrUnfollowed) != inner || !inner && err != nil {
			t.Errorf("with a change within: %v: %v", inner, err)
		}
	}
	if diff := cmp.Diff([]int64{1}, w.put(moved.ID)); diff != "" || len(w.life(t, moved.ID)) > 0 {
		t.Errorf("history: %v; put (-want +got):\n%s", w.life(t, moved.ID), diff)
	}
}

// multiStatements is newWorld with a DSN that lets one text have several statements.
func multiStatements(t *testing.T) *world {
	t.Helper()
	return onStore(t, worldtest.OpenStore(t, newWorld(t).store.DSN+"?multiStatements=true", store.Options{}))
}

func TestRewindForgetsWhatTheSavepointTookBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	kept, undone := meal.New("ann", 1, task.In(time.Hour)), meal.New("ann", 2, task.In(time.Hour))
	pipelinetest.Must(t, w.InTx(ctx, func(tx *schedule.Tx) error {
		_, err := tx.Schedule(ctx, kept)
		pipelinetest.Must(t, err)
		_, err = tx.ExecContext(ctx, "SAVEPOINT one")
		pipelinetest.Must(t, err)
		mark := insideOf(tx).Ledger().Mark()
		_, err = tx.Schedule(ctx, undone)
		pipelinetest.Must(t, err)
		_, err = tx.Cancel(ctx, kept.ID())
		pipelinetest.Must(t, err)
		if got := insideOf(tx).Ledger().Touched(mark); len(got) != 2 || got[0].ID != undone.ID() || got[1].State != task.Cancelled {
			t.Errorf("touched since the mark: %v", got)
		}
		_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT one")
		pipelinetest.Must(t, err)
		insideOf(tx).Ledger().Rewind(mark)
		return nil
	}))
	if diff := cmp.Diff([]int64{1}, w.put(kept.ID())); diff != "" || len(w.put(undone.ID())) != 0 {
		t.Errorf("put %v of the task taken back; of the other (-want +got):\n%s", w.put(undone.ID()), diff)
	}
}
