package schedule

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// labeler is what labels need of the store. q is the transaction.
type labeler interface {
	// InsertLabels writes labels of new tasks.
	InsertLabels(ctx context.Context, q sqlx.ExtContext, labels []task.LabelRow) error
}

// insertLabels writes the labels of the tasks that were made just now. A task that was found by its key or its id keeps its
// own, and so does one that this transaction has made by another spec before: a task has one value of a name.
func (t *Tx) insertLabels(ctx context.Context, specs []task.Spec, wanted, standing []task.Task) error {
	if !slices.ContainsFunc(specs, func(s task.Spec) bool { return len(s.LabelRows()) > 0 }) {
		return nil
	}
	known := make(map[task.ID]bool, len(specs))
	for row := range t.ledger.Written(0) {
		known[row.ID] = true
	}
	var labels []task.LabelRow
	for i, spec := range specs {
		id := spec.ID()
		made := standing[i].ID == id && standing[i].Version == 1 && standing[i].CreatedAt.Equal(wanted[i].CreatedAt)
		if made && !known[id] {
			labels = append(labels, spec.LabelRows()...)
		}
		known[id] = true
	}
	if len(labels) == 0 {
		return nil
	}
	if err := t.rows.InsertLabels(ctx, t.db, labels); err != nil {
		return t.ledger.Fail(fmt.Errorf("label %s of owner %s: %w", wanted[0].ID, wanted[0].Owner, err))
	}
	return nil
}
