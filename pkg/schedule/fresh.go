package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Settled is what SettleDue has done.
type Settled struct {
	// Done is how many tasks have taken effect.
	Done int
	// Failed has the errors of handlers that failed. Nothing of what they did remains, and no attempt is charged: a worker will run
	// these tasks too.
	Failed map[task.ID]error
	// Left is how many of the due tasks were left to a worker: those whose handlers act outside the database, those of paused
	// queues, owners and kinds, and of queues with a limit, those of kinds that have no handler here, those of a kind that is
	// InOrder while an earlier task of their order key has not ended, and those that a worker has put off without an attempt, as
	// by Snooze, for ten minutes at most. The last are counted among the next 100 tasks by run time: behind as many that come due
	// within ten minutes they are not seen.
	Left int
	// More says that more tasks may be due: SettleDue came to its bounds, 100 tasks or a second.
	More bool
}

// Whole reports whether every task that was due has taken effect.
func (s Settled) Whole() bool { return len(s.Failed) == 0 && s.Left == 0 && !s.More }

// Settler runs due tasks in a caller's transaction.
type Settler interface {
	SettleDue(ctx context.Context, tx *Tx, owner string) (Settled, error)
	SettleOrder(ctx context.Context, tx *Tx, key string) (Settled, error)
	RunNow(ctx context.Context, tx *Tx, id task.ID) (task.Task, error)
}

var errNoHandlers = errors.New("schedule: this client runs no tasks: it was opened without handlers")

// ErrNotHere answers RunNow for a task that only a worker runs: its handler acts outside the database or snoozes, it is paused,
// its queue has a limit, or this client has no handler of its kind.
var ErrNotHere = errors.New("only a worker runs this task")

// ErrBehind answers RunNow for a task of a kind that is InOrder while an earlier task of its order key has not ended. The error names that one.
var ErrBehind = errors.New("an earlier task of its order key comes first")

// SettleDue runs the owner's due tasks in this transaction, so that what is read from then on is what the rules say for this moment:
// by the same handlers as a worker, in the order of their times, with what they schedule, until nothing of the owner is due. Before a task of a kind that is InOrder it runs what
// is due of its order key, whoever owns that. A handler
// runs as if in time: what it schedules counts from its task's time, and its Tx.Now is that time. A worker finds the tasks done. If the transaction is rolled back, nothing has happened, and a worker runs them.
//
// Call it first: it locks tasks' rows, as a worker does before its handlers lock rows of the service. A caller that has locked
// one of these before may meet a deadlock, after which InTx runs again. A task that a worker runs at this moment is waited for; after the
// session's lock wait the answer is task.ErrRunning.
//
// With a joined transaction other reads must be at READ COMMITTED too, which Join checks. A read from a replica or a cache is not fresh.
func (t *Tx) SettleDue(ctx context.Context, owner string) (Settled, error) {
	if err := task.CheckOwner(owner); err != nil {
		return Settled{}, err
	}
	if err := t.checkSettler(ctx); err != nil {
		return Settled{}, err
	}
	return t.settler.SettleDue(ctx, t, owner)
}

// ordered says how rows hold an order key.
var ordered = task.NewKind[struct{}]("any", task.InOrder())

// SettleOrder is SettleDue for the tasks that were scheduled with this task.OrderKey, whoever owns them: a city reads what has come to it.
func (t *Tx) SettleOrder(ctx context.Context, key string) (Settled, error) {
	row, err := ordered.New("any", struct{}{}, task.In(0), task.OrderKey(key)).Resolve(time.Now())
	if err != nil {
		return Settled{}, err
	}
	if err := t.checkSettler(ctx); err != nil {
		return Settled{}, err
	}
	return t.settler.SettleOrder(ctx, t, row.OrderKey)
}

func (t *Tx) checkSettler(ctx context.Context) error {
	if t.settler == nil {
		return errNoHandlers
	}
	return t.checkUsable(ctx)
}

// RunNow runs one pending task in this transaction whatever its time, as when a player pays to finish at once, and returns it as it
// is then: its due time is now, unless that has passed, and it takes effect exactly if the transaction commits. What SettleDue
// says about locks and Tx.Now holds here too, but RunNow runs no other task: SettleOrder, called before, runs what is due of
// its order key. It also runs what is too late for its kind's task.CatchUpWindow. A handler that fails leaves nothing behind,
// and its error comes out. A task that has ended answers task.ErrAlreadyDone and its kin, an unknown id task.ErrNotFound, one of a
// blocked owner task.ErrOwnerBlocked, one that a worker runs at this moment task.ErrRunning after the session's lock wait, one
// that only a worker may run ErrNotHere, and one that has to wait for an earlier one of its order key ErrBehind.
func (t *Tx) RunNow(ctx context.Context, id task.ID) (task.Task, error) {
	if err := t.checkSettler(ctx); err != nil {
		return task.Task{}, err
	}
	ran, err := t.settler.RunNow(ctx, t, id)
	if err != nil {
		return task.Task{}, fmt.Errorf("run %s now: %w", id, err)
	}
	return ran, nil
}

// Fresh is InTx with SettleDue before fn: what fn reads through tx has everything that was due.
func (c *Client) Fresh(ctx context.Context, owner string, fn func(tx *Tx, settled Settled) error) error {
	return c.InTx(ctx, func(tx *Tx) error {
		settled, err := tx.SettleDue(ctx, owner)
		if err != nil {
			return err
		}
		return fn(tx, settled)
	})
}
