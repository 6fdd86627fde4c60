package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// renamed is what kinds that have several names (task.Was) need of the store. q is the transaction.
type renamed interface {
	// KeyHolders reads the ids, owners, kinds and keys of the rows that have the keys of tasks. With share it waits for transactions that
	// insert such a row, but not for those that run its task.
	KeyHolders(ctx context.Context, q sqlx.QueryerContext, tasks []task.Task, share bool) ([]task.Task, error)
}

// # Keys of renamed kinds
//
// A key is unique by owner, kind and key, so two names of a kind have two keys in MySQL.
//
//  1. Before the INSERT it is read, without locks, which names have the key. The spec goes on under the name that has it, and meets
//     its task as any other spec does. If that task ends in between, the new task has the old name, which the kind's handler knows.
//  2. After the INSERT the other names are read once more, in the index of keys, waiting for transactions that have just written there. So
//     two transactions that have made tasks of one key under two names meet: the later one, or the victim of their deadlock, runs again.
//     The name of the new row is not asked for: MySQL would read a small table whole, and wait for all that others have inserted.
//
// A process that does not know the new name makes a task beside that of the new name: docs/CHANGING.md says how to deploy.

// underHeldNames returns the specs, each under the name of its kind under which its key is held: by a row, or by an earlier spec.
func (t *Tx) underHeldNames(ctx context.Context, specs []task.Spec, now time.Time) ([]task.Spec, error) {
	keys := keysOfRenamed(specs, now)
	if len(keys) == 0 {
		return specs, nil
	}
	holders, err := t.rows.KeyHolders(ctx, t.db, keys, false)
	if err != nil {
		return nil, t.ledger.Fail(err)
	}
	held := map[taskKey]bool{}
	for _, row := range holders {
		held[keyOf(row)] = true
	}
	specs = slices.Clone(specs)
	for i, spec := range specs {
		row, err := spec.Resolve(now)
		if err != nil || row.DedupKey == "" {
			continue // resolve says what is wrong
		}
		for _, row.Kind = range spec.Kind().Names() {
			if held[keyOf(row)] {
				specs[i] = spec.Under(row.Kind)
				break
			}
		}
		row.Kind = specs[i].Kind().Name
		held[keyOf(row)] = true
	}
	return specs, nil
}

// checkOtherNames refuses, by a retryable error, new tasks whose keys other transactions hold under other names of their kinds.
func (t *Tx) checkOtherNames(ctx context.Context, specs []task.Spec, standing []task.Task, now time.Time) error {
	var made []task.Spec
	own := map[taskKey]bool{}
	for i, row := range standing {
		own[keyOf(row)] = true
		if row.ID == specs[i].ID() && row.CreatedAt.Equal(now) {
			made = append(made, specs[i])
		}
	}
	others := slices.DeleteFunc(keysOfRenamed(made, t.from(now)), func(row task.Task) bool { return own[keyOf(row)] })
	if len(others) == 0 {
		return nil
	}
	holders, err := t.rows.KeyHolders(ctx, t.db, others, true)
	if err == nil && len(holders) > 0 {
		err = errOtherName
	}
	return err
}

// keysOfRenamed returns the keys of specs whose kinds have several names, under each of the names.
func keysOfRenamed(specs []task.Spec, now time.Time) (keys []task.Task) {
	for _, spec := range specs {
		if len(spec.Kind().Was) == 0 {
			continue
		}
		row, err := spec.Resolve(now)
		if err != nil || row.DedupKey == "" {
			continue // resolve says what is wrong
		}
		for _, row.Kind = range spec.Kind().Names() {
			keys = append(keys, row)
		}
	}
	return keys
}

type taskKey struct{ owner, kind, key string }

func keyOf(row task.Task) taskKey { return taskKey{row.Owner, row.Kind, row.DedupKey} }
