package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/batcher"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

const (
	concurrentInserts   = 2  // statements of Schedule: with more of them each has fewer rows, and waits for the others' flushes
	concurrentChanges   = 2  // transactions of Reschedule, Shift and Cancel
	maxRowsPerStatement = 64 // their payloads stay below the packet size that a server accepts
)

// autocommits are what calls of one task need of the store: statements that are transactions of their own.
type autocommits interface {
	// LockFree locks those of the rows that nobody else has locked, and gives the database's time of that moment.
	LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error)
	// ReadFree reads a row that nobody has locked, with the database's time; false if there is none.
	ReadFree(ctx context.Context, id task.ID) (task.Task, time.Time, bool, error)
	// Unclear reports whether an error of these leaves open if it took effect.
	Unclear(err error) bool
}

// answer is what a caller of a shared statement gets: its task as it stands now, or why it can't be changed. It is empty where
// nothing was written and a transaction of the caller's own may do better.
type answer struct {
	task task.Task
	err  error
}

// Schedule is Tx.Schedule in a transaction of its own. It answers as soon as that has committed, unless the index is so far
// behind that its callers are slowed down; the entry follows at once, and Tasks of this client waits for it. After
// ErrCommitUnknown the same spec may be scheduled again: it is one task.
func (c *Client) Schedule(ctx context.Context, spec task.Spec) (task.Task, error) {
	spec, err := c.cfg.BeforeSchedule.one(ctx, spec)
	if err != nil {
		return task.Task{}, err
	}
	if c.cfg.InChange == nil && c.cfg.Kinds.Configures(spec.Kind().Queue) && spec.Mode() == rowform.Unkeyed && len(spec.Labels()) == 0 &&
		!spec.Kind().InOrder {
		if made, done, err := c.autocommitInsert(ctx, spec); done {
			return made, err
		}
	}
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) {
		rows, err := tx.schedulePrepared(ctx, []task.Spec{spec})
		if err != nil {
			return task.Task{}, err
		}
		return rows[0], nil
	})
}

// autocommitInsert inserts the row together with those of other callers. It is not done where a transaction has to do it.
func (c *Client) autocommitInsert(ctx context.Context, spec task.Spec) (made task.Task, done bool, err error) {
	ctx, specs, end := startSpan(ctx, c.tracer, []task.Spec{spec})
	defer func() { end(err) }()
	if _, err := spec.Resolve(time.Now()); err != nil {
		return task.Task{}, true, err // before it could spoil the others' statement
	}
	if err := c.cfg.Kinds.CheckSpecs(specs, nil); err != nil { // its queue is configured
		return task.Task{}, true, err
	}
	if !protocol.IsFresh(spec.ID(), time.Now()) {
		return task.Task{}, false, nil // it may have ended long ago
	}
	out, err := c.inserts.Do(ctx, specs[0])
	done, err = c.conclude(spec.ID(), out, err)
	return out.task, done, err
}

// insertRows writes the rows of several callers in one statement. They need the database's answer alone: the put follows
// behind their backs.
func (c *Client) insertRows(ctx context.Context, specs []task.Spec) ([]answer, error) {
	made, err := c.ledger.Insert(ctx, specs)
	if err != nil || made == nil {
		return nil, err
	}
	outs := make([]answer, len(made))
	for i, t := range made {
		outs[i].task = t
	}
	return outs, nil
}

// Reschedule is Tx.Reschedule in a transaction of its own.
func (c *Client) Reschedule(ctx context.Context, id task.ID, when task.When, conditions ...Condition) (task.Task, error) {
	return c.change(ctx, change{"reschedule", id, only(move(when), conditions)})
}

// Shift is Tx.Shift in a transaction of its own. It is not safe to repeat after ErrCommitUnknown.
func (c *Client) Shift(ctx context.Context, id task.ID, d time.Duration, conditions ...Condition) (task.Task, error) {
	return c.change(ctx, change{"shift", id, only(shift(d), conditions)})
}

// Cancel is Tx.Cancel in a transaction of its own.
func (c *Client) Cancel(ctx context.Context, id task.ID, conditions ...Condition) (task.Task, error) {
	return c.change(ctx, change{"cancel", id, only(cancel, conditions)})
}

// change is what a caller asks for.
type change struct {
	verb string
	id   task.ID
	next step
}

// apply computes the change of a row at a moment. The answer is empty if the change ends a task of a recurrence, or a member of a group:
// the caller's own transaction then makes the next task, or counts the member, which may wait for the recurrence or the group.
func (c change) apply(row task.Task, now time.Time) answer {
	next, err := c.next(row, now)
	_, _, recurs := row.Tick()
	switch {
	case err != nil:
		return c.refused(err)
	case (recurs || row.Group != "") && next.State != task.Pending:
		return answer{}
	default:
		return answer{task: next}
	}
}

func (c change) refused(err error) answer {
	return answer{err: fmt.Errorf("%s %s: %w", c.verb, c.id, err)}
}

func (c *Client) change(ctx context.Context, asked change) (task.Task, error) {
	if c.cfg.InChange == nil {
		out, err := c.changes.Do(ctx, asked)
		if out.err != nil {
			return task.Task{}, out.err
		}
		if done, err := c.conclude(asked.id, out, err); done {
			return out.task, err
		}
	}
	return inTx(ctx, c, func(tx *Tx) (task.Task, error) { return tx.changeOne(ctx, asked.verb, asked.id, asked.next) })
}

// changeRows makes changes of several callers in one transaction. It waits for nobody: a row that is locked is left to
// its caller's own transaction, and so are a second change of one task, and one that ends a recurrence's task.
func (c *Client) changeRows(ctx context.Context, asked []change) ([]answer, error) {
	if len(asked) == 1 {
		out, err := c.changeRow(ctx, asked[0])
		return []answer{out}, err
	}
	ids := make([]task.ID, len(asked))
	for i, a := range asked {
		ids[i] = a.id
	}
	outs := make([]answer, len(asked))
	err := c.ledger.RunOnce(ctx, func(began *sqlx.Tx) (*ledger.Tx, error) {
		tx := ledger.NewTx(began, c.store, c.cfg.Actor)
		rows, now, err := c.store.LockFree(ctx, began, ids)
		if err != nil {
			return tx, err
		}
		tx.SetNow(now)
		free := protocol.ByID(rows)
		var changes []transition.Change
		for i, a := range asked {
			row, ok := free[a.id]
			if !ok {
				continue
			}
			delete(free, a.id)
			if outs[i] = a.apply(row, now); outs[i].task.Version != 0 {
				changes = append(changes, transition.Change{Before: row, After: outs[i].task})
			}
		}
		return tx, tx.Write(ctx, changes)
	})
	if err != nil {
		return nil, err
	}
	return outs, nil
}

// changeRow reads the row and writes it where it is still the same, a statement each.
func (c *Client) changeRow(ctx context.Context, asked change) (answer, error) {
	row, now, free, err := c.store.ReadFree(ctx, asked.id)
	if err != nil || !free {
		return answer{}, err // a transaction of the caller's own waits for it, or says that there is none
	}
	out := asked.apply(row, now)
	if out.task.Version == 0 {
		return out, nil
	}
	err = c.ledger.WriteOne(ctx, c.cfg.Actor, transition.Change{Before: row, After: out.task})
	if running := ledger.AsRunning(err); errors.Is(running, task.ErrRunning) {
		return asked.refused(fmt.Errorf("lock: %w", running)), nil
	}
	if err != nil {
		return answer{}, err
	}
	return out, nil
}

// conclude reads the answer of a shared statement. It has the daemon look at a row that may have been written. The call is not
// done where nothing was written and a transaction may do better.
func (c *Client) conclude(id task.ID, out answer, err error) (done bool, _ error) {
	switch {
	case errors.Is(err, ErrCommitUnknown):
		return true, err
	case c.store.Unclear(err) || errors.Is(err, batcher.ErrLeft):
		c.ledger.Writer().Compensate([]task.Task{{ID: id}})
		return true, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	case err != nil || out.task.Version == 0:
		return false, nil //nolint:nilerr // a transaction tries the same, and says what it ran into
	default:
		return true, nil
	}
}
