package ledger

import (
	"context"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/pkg/task"
)

// groups is what of the list is counted in groups. See package group for the counts and the order of their locks.
type groups struct {
	counted int  // so many entries are
	atOnce  bool // count behind each entry: nobody calls CountGroups before the COMMIT
}

// CountAtOnce has each entry counted when it joins the list, in a transaction that somebody else commits.
func (t *Tx) CountAtOnce() { t.atOnce = true }

// NewMembers adds new members of groups, whose rows the transaction has inserted.
func (t *Tx) NewMembers(ctx context.Context, members []task.Task) error {
	t.list = append(t.list, entry{members: members})
	return t.countAtOnce(ctx)
}

// Seal seals a group.
func (t *Tx) Seal(ctx context.Context, name string) error {
	t.list = append(t.list, entry{seals: name})
	return t.countAtOnce(ctx)
}

// Seals reports whether this try has sealed the group.
func (t *Tx) Seals(name string) bool {
	for _, e := range t.list {
		if e.seals == name {
			return true
		}
	}
	return false
}

func (t *Tx) countAtOnce(ctx context.Context) error {
	if !t.atOnce {
		return nil
	}
	return t.CountGroups(ctx)
}

// CountGroups counts what the list says about members of groups since the last call, and schedules the followers of groups that end by
// it. It locks counts, so nothing that takes long must follow it in the transaction.
func (t *Tx) CountGroups(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var changes group.Changes
	for _, e := range t.list[t.counted:] {
		for i := range e.members {
			changes.Added(&e.members[i])
		}
		for i := range e.changes {
			changes.Changed(&e.changes[i].Before, &e.changes[i].After)
		}
		if e.seals != "" {
			changes.Sealed(e.seals)
		}
	}
	t.counted = len(t.list)
	if changes.Empty() {
		return nil
	}
	now := changes.At() // saves a statement of each batch
	if now.IsZero() {
		var err error
		if now, err = t.Now(ctx); err != nil {
			return t.Fail(err)
		}
	}
	out, err := changes.Write(ctx, t.q, t.rows, now)
	if err != nil {
		return t.Fail(err)
	}
	return t.Followed(ctx, out)
}

// Followed adds what became of groups, and writes its lines of the history: a worker has written all others by then.
func (t *Tx) Followed(ctx context.Context, out group.Outcome) error {
	t.Inserted(out.Made)
	t.counted = len(t.list)
	if len(out.Events) == 0 {
		return nil
	}
	for i := range out.Events {
		out.Events[i].Actor = t.actor
	}
	if err := t.rows.Record(ctx, t.q, out.Events); err != nil {
		return t.Fail(err)
	}
	return nil
}
