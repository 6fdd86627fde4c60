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
	var labelled map[task.ID]bool // of two specs with one id the first makes the task: a task has one value of a name
	for i, spec := range specs {
		rows := spec.LabelRows()
		made := standing[i].ID == spec.ID() && standing[i].Version == 1 && standing[i].CreatedAt.Equal(wanted[i].CreatedAt)
		if !made || len(rows) == 0 || labelled[spec.ID()] {
			continue
		}
		if labelled == nil {
			labelled = map[task.ID]bool{}
		}
		labelled[spec.ID()] = true
		labels = append(labels, rows...)
	}
	if len(labels) == 0 {
		return nil
	}
	if err := t.rows.InsertLabels(ctx, t.db, labels); err != nil {
		return t.fail(fmt.Errorf("label %s of owner %s: %w", wanted[0].ID, wanted[0].Owner, err))
	}
	return nil
}
