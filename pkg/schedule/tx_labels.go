package schedule

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// labeler is what labels need of the store. q is the transaction.
type labeler interface {
	// InsertLabels writes labels of new tasks.
	InsertLabels(ctx context.Context, q sqlx.ExtContext, labels []protocol.LabelRow) error
}

// insertLabels writes the labels of the tasks that were made just now, and returns these tasks if any has a label. A task that was
// found by its key or its id keeps its own, and so does one that this transaction has made by another spec before: a task has one value
// of a name. A group is a label too.
func (t *Tx) insertLabels(ctx context.Context, specs []task.Spec, wanted, standing []task.Task) (made []task.Task, err error) {
	if wanted[0].Group == "" && !slices.ContainsFunc(specs, func(s task.Spec) bool { return len(s.Labels()) > 0 }) {
		return nil, nil
	}
	known := make(map[task.ID]bool, len(specs))
	for row := range t.ledger.Written(0) {
		known[row.ID] = true
	}
	var labels []protocol.LabelRow
	for i, spec := range specs {
		id := spec.ID()
		isNew := standing[i].ID == id && standing[i].Version == 1 && standing[i].CreatedAt.Equal(wanted[i].CreatedAt)
		if isNew && !known[id] {
			made = append(made, standing[i])
			labels = append(labels, protocol.LabelRows(spec)...)
			if group := wanted[i].Group; group != "" {
				labels = append(labels, protocol.LabelRow{Task: id, Name: protocol.GroupLabel, Value: group})
			}
		}
		known[id] = true
	}
	if len(labels) == 0 {
		return made, nil
	}
	if err := t.rows.InsertLabels(ctx, t.db, labels); err != nil {
		return nil, t.ledger.Fail(fmt.Errorf("label %s of owner %s: %w", wanted[0].ID, wanted[0].Owner, err))
	}
	return made, nil
}
