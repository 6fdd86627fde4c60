package schedule

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// labeler is what labels need of the store. q is the transaction.
type labeler interface {
	// InsertLabels writes labels of new tasks.
	InsertLabels(ctx context.Context, q sqlx.ExtContext, labels []task.LabelRow) error
}

// insertLabels writes the labels of the tasks that were made just now. A task that was found by its key or its id keeps its
// own.
func (t *Tx) insertLabels(ctx context.Context, specs []task.Spec, wanted, standing []task.Task) error {
	var labels []task.LabelRow
	for i, spec := range specs {
		made := standing[i].ID == spec.ID() && standing[i].Version == 1 && standing[i].CreatedAt.Equal(wanted[i].CreatedAt)
		if made {
			labels = append(labels, spec.LabelRows()...)
		}
	}
	if len(labels) == 0 {
		return nil
	}
	if err := t.rows.InsertLabels(ctx, t.db, labels); err != nil {
		return t.fail(fmt.Errorf("label %s of owner %s: %w", wanted[0].ID, wanted[0].Owner, err))
	}
	return nil
}
