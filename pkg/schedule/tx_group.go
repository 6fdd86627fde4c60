package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// groups are what groups need of the store, beside what the ledger counts by. q is the transaction.
type groups interface {
	// InsertGroup writes a new group; true if there is one of its name already.
	InsertGroup(ctx context.Context, q sqlx.ExtContext, g group.Row) (taken bool, err error)
}

// groupReader is what reading groups needs of the store.
type groupReader interface {
	// Group reads a group as committed; false if there is none.
	Group(ctx context.Context, name string) (task.Group, bool, error)
}

// Group schedules the specs as the members of a new group, and returns them as ScheduleMany does. When the last member has ended, done,
// dead or cancelled, the follower is scheduled in the same transaction: once, whatever happens to workers. Its payload, a JSON object,
// gets the field "group": see task.Group. A follower that is due In a time is due that long after the end; one that is due At a moment
// is due at the end if that is later. It can't have a key. If its owner is blocked by then, it is not scheduled, and the group's Note
// says so.
//
// The group is sealed, unless then says that it stays open: then AddToGroup adds members, and the follower waits for SealGroup too. A
// sealed group without members ends with this transaction.
//
// The name is 1 to 64 bytes, and taken until the group is forgotten, which is at daemon.retention after its end: then the
// answer is task.ErrNameTaken, and nothing was changed. But a call with the follower of the group that has the name repeats the
// call that made it, as after ErrCommitUnknown; a follower with its id that differs in anything else is another one. A follower
// with the id of a task answers task.ErrKeyTaken, and nothing was changed. Up to task.MaxPerCall members fit in one call.
//
// A member that a handler moves, or that fails and waits for its next attempt, is still open. A dead member counts as ended; if it is
// retried before the group ends, it is open again, and afterwards it leaves the group. The task of a spec with a key must be new: if
// the key is taken, the answer is task.ErrKeyTaken, and the transaction can't commit.
func (t *Tx) Group(ctx context.Context, name string, members []task.Spec, then task.Follower) (made []task.Task, err error) {
	if err = protocol.CheckGroup(name); err != nil {
		return nil, err
	}
	if members, err = t.before.apply(ctx, members); err != nil {
		return nil, err
	}
	if then.Spec, err = t.before.one(ctx, then.Spec); err != nil {
		return nil, group.FollowerError{Err: err}
	}
	ctx, specs, end := startSpan(ctx, t.tracer, append(slices.Clone(members), then.Spec))
	defer func() { end(err) }()
	members, then.Spec = specs[:len(members)], specs[len(members)]
	if err = checkCount(len(members)); err != nil {
		return nil, err
	}
	if ctx, err = t.usable(ctx); err != nil {
		return nil, err
	}
	if err = t.holdQueues(ctx, specs); err != nil {
		return nil, err
	}
	if err = t.makeGroup(ctx, name, members, then.Spec); err != nil {
		return nil, err
	}
	if made, err = t.scheduleMany(ctx, members, name); err != nil {
		return nil, t.ledger.Fail(err) // the group's row is written
	}
	if !then.Open {
		err = t.ledger.Seal(ctx, name)
	}
	return made, err
}

// makeGroup checks the specs, and writes the row of a group, unless this very follower has it already.
func (t *Tx) makeGroup(ctx context.Context, name string, members []task.Spec, then task.Spec) error {
	owners := []string{then.Owner()}
	for _, spec := range members {
		owners = append(owners, spec.Owner())
	}
	now, err := t.nowUnlessBlocked(ctx, owners...)
	if err != nil {
		return err
	}
	if _, err := resolve(members, t.from(now)); err != nil {
		return err
	}
	f, err := group.NewFollower(name, then, t.from(now))
	if err != nil {
		return group.FollowerError{Err: err}
	}
	text, err := json.Marshal(f)
	if err == nil {
		f, err = group.Row{Follower: text}.Then() // as it is stored: a codec may write blanks, <, > and &
	}
	if err != nil {
		return group.FollowerError{Err: err}
	}
	stands, taken, err := t.rows.GetGroup(ctx, t.db, name)
	if err == nil && !taken {
		if err := t.checkFree(ctx, f.ID, members); err != nil {
			return err
		}
		taken, err = t.rows.InsertGroup(ctx, t.db, group.Row{
			Group: task.Group{Name: name, FollowerID: f.ID, CreatedAt: now}, Follower: text,
		})
		if err == nil && taken { // just now
			stands, _, err = t.rows.GetGroup(ctx, t.db, name)
		}
	}
	if err != nil {
		return t.ledger.Fail(ledger.AsRunning(err))
	}
	if taken && !sameFollower(then, stands, f) {
		return fmt.Errorf("group %s: %w", name, task.ErrNameTaken)
	}
	return nil
}

// checkFree refuses a follower whose id a task has, or will have: at the group's end it could not be scheduled.
func (t *Tx) checkFree(ctx context.Context, id task.ID, members []task.Spec) error {
	rows, err := t.rows.Get(ctx, t.db, []task.ID{id})
	if err != nil {
		return t.ledger.Fail(err)
	}
	if len(rows) > 0 || slices.ContainsFunc(members, func(s task.Spec) bool { return s.ID() == id }) {
		return group.FollowerError{Err: fmt.Errorf("task %s is there already: %w", id, task.ErrKeyTaken)}
	}
	return nil
}

// sameFollower reports whether the follower that stands is the one that the call means. Its trace may differ, and its payload
// may be encrypted with another key.
func sameFollower(then task.Spec, stands group.Row, wanted group.Follower) bool {
	f, err := stands.Then()
	if err != nil || !samePayload(then, f.Payload, wanted.Payload) {
		return false
	}
	f.Payload, f.Traceparent = wanted.Payload, wanted.Traceparent
	return reflect.DeepEqual(f, wanted)
}

// AddToGroup schedules the specs as further members of a group that is not sealed, up to task.MaxPerCall of them, and returns them as
// ScheduleMany does. A task that is a member already stays one. It answers task.ErrNoGroup or task.ErrGroupSealed, and nothing was
// changed. The error of a key that is taken is that of Group.
func (t *Tx) AddToGroup(ctx context.Context, name string, members []task.Spec) (made []task.Task, err error) {
	if members, err = t.before.apply(ctx, members); err != nil {
		return nil, err
	}
	ctx, members, end := startSpan(ctx, t.tracer, members)
	defer func() { end(err) }()
	g, ctx, err := t.openGroup(ctx, name)
	if err != nil {
		return nil, err
	}
	if g.Sealed || t.ledger.Seals(name) {
		return nil, fmt.Errorf("add to group %s: %w", name, task.ErrGroupSealed)
	}
	made, err = t.scheduleMany(ctx, members, name)
	return made, err
}

// SealGroup says that a group has all its members: its follower is scheduled when the last of them has ended, or with this transaction
// if all have. A group that is sealed stays so. It answers task.ErrNoGroup.
func (t *Tx) SealGroup(ctx context.Context, name string) error {
	g, ctx, err := t.openGroup(ctx, name)
	if err != nil || g.Sealed {
		return err
	}
	return t.ledger.Seal(ctx, name)
}

// openGroup reads a group that is to be changed, without locking it: the transaction locks it at its end.
func (t *Tx) openGroup(ctx context.Context, name string) (group.Row, context.Context, error) {
	if err := protocol.CheckGroup(name); err != nil {
		return group.Row{}, ctx, err
	}
	ctx, err := t.usable(ctx)
	if err != nil {
		return group.Row{}, ctx, err
	}
	g, found, err := t.rows.GetGroup(ctx, t.db, name)
	if err == nil && !found {
		err = fmt.Errorf("group %s: %w", name, task.ErrNoGroup)
	}
	return g, ctx, err
}

// joinGroup counts the tasks that were made as members of the group. Those that were found must be members already.
func (t *Tx) joinGroup(ctx context.Context, name string, standing, made []task.Task) error {
	for _, row := range standing {
		if row.Group != name {
			return t.ledger.Fail(fmt.Errorf("group %s: task %s is no member: %w", name, row.ID, task.ErrKeyTaken))
		}
	}
	if len(made) == 0 {
		return nil
	}
	return t.ledger.NewMembers(ctx, made)
}

// GetGroup reads a group, with its counts as committed. It answers task.ErrNoGroup, or a *task.FieldError for what can't be a name.
func (c *Client) GetGroup(ctx context.Context, name string) (task.Group, error) {
	if err := protocol.CheckGroup(name); err != nil {
		return task.Group{}, err
	}
	g, found, err := c.store.Group(ctx, name)
	if err != nil {
		return g, fmt.Errorf("get group %s: %w", name, err)
	}
	if !found {
		return g, fmt.Errorf("get group %s: %w", name, task.ErrNoGroup)
	}
	return g, nil
}
