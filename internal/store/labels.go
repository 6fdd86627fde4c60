package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// A label is a row of its own, so that tasks without labels cost no statement and no column. Its primary key finds the tasks
// of a label; duetime_labels_task finds the labels of a task.

// InsertLabels writes labels of new tasks, in one statement. A label that the
// task has already stays.
func (s *Store) InsertLabels(ctx context.Context, q sqlx.ExtContext, labels []protocol.LabelRow) error {
	args := make([]any, 0, 3*len(labels))
	for _, l := range labels {
		args = append(args, l.Name, l.Value, l.Task[:])
	}
	_, err := q.ExecContext(ctx, s.dialect.insertIgnore()+" INTO duetime_labels (name, value, task_id) VALUES "+
		strings.Repeat(",(?, ?, ?)", len(labels))[1:], args...)
	if err != nil {
		return fmt.Errorf("insert %d labels: %w", len(labels), err)
	}
	return nil
}

// Labels reads the labels of these tasks; a task without labels is absent.
func (s *Store) Labels(ctx context.Context, ids []task.ID) (map[task.ID]map[string]string, error) {
	all := map[task.ID]map[string]string{}
	for part := range slices.Chunk(ids, task.MaxPerCall) {
		var id task.ID
		var name, value string
		err := forEach(ctx, s.db, "SELECT task_id, name, value FROM duetime_labels"+s.dialect.Force("duetime_labels_task")+
			" WHERE task_id IN ("+marks(len(part))+")", idArgs(part), []any{idBytes{&id}, &name, &value}, func() {
			if all[id] == nil {
				all[id] = map[string]string{}
			}
			all[id][name] = value
		})
		if err != nil {
			return nil, fmt.Errorf("read labels of %d tasks: %w", len(ids), err)
		}
	}
	return all, nil
}

// labelled returns those of the tasks that have labels.
func (s *Store) labelled(ctx context.Context, ids []task.ID) (found []task.ID, err error) {
	var id task.ID
	err = forEach(ctx, s.db, s.labelledSQL(ids), idArgs(ids), []any{idBytes{&id}}, func() { found = append(found, id) })
	if err != nil {
		return nil, fmt.Errorf("find labels of %d tasks: %w", len(ids), err)
	}
	return found, nil
}

func (s *Store) labelledSQL(ids []task.ID) string {
	return "SELECT DISTINCT task_id FROM duetime_labels" + s.dialect.Force("duetime_labels_task") +
		" WHERE task_id IN (" + marks(len(ids)) + ")"
}

// deleteLabelled deletes finished rows with their labels, both or neither.
func (s *Store) deleteLabelled(ctx context.Context, of tasksTable, ids []task.ID, before time.Time) error {
	if s.dialect == SQLite {
		return s.deleteInTx(ctx, of, ids, before)
	}
	if _, err := s.db.ExecContext(ctx, deleteLabelledSQL(of, len(ids)), append(idArgs(ids), before.UnixMilli())...); err != nil {
		return fmt.Errorf("delete %d finished tasks with labels: %w", len(ids), err)
	}
	return nil
}

// deleteLabelledSQL reads each row's labels by the index of tasks. A scan of a small table of labels would wait for those that
// others have just inserted.
func deleteLabelledSQL(of tasksTable, n int) string {
	return "DELETE duetime_tasks, duetime_labels" + of.fromByID(MySQL) + MySQL.LeftFirst() +
		"duetime_labels ON task_id = id WHERE id IN (" + marks(n) + ") AND " + of.isOver
}

// deleteInTx is deleteLabelled for SQLite, whose DELETE has one table.
func (s *Store) deleteInTx(ctx context.Context, of tasksTable, ids []task.ID, before time.Time) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := s.deleteRows(ctx, tx, of, ids, before); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM duetime_labels WHERE task_id IN ("+marks(len(ids))+
		") AND NOT EXISTS (SELECT 1 FROM "+of.name+" WHERE id = task_id)", idArgs(ids)...)
	if err != nil {
		return fmt.Errorf("delete labels of %d tasks: %w", len(ids), err)
	}
	return tx.Commit()
}

// labelCondition is the condition that the row of duetime_tasks has a label; its arguments are the name and the value.
const labelCondition = "EXISTS (SELECT 1 FROM duetime_labels WHERE name = ? AND value = ? AND task_id = duetime_tasks.id)"
