package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/pkg/task"
)

// A task that is done or cancelled leaves duetime_tasks for duetime_ended some time after its end, in one transaction: its row is
// always in exactly one of the two. It stays as long as it has a key, which no other task may take. No row comes back. So who looks
// for a row in duetime_tasks first, and then in duetime_ended, misses none that moves meanwhile.

// tasksTable is a table that has rows of tasks. Each statement calls it duetime_tasks, so that conditions fit both.
type tasksTable struct {
	name   string
	byID   string // its index of ids
	isOver string // the condition that a row's retention may end; its argument is the moment before which it must have changed
}

var (
	liveTasks  = tasksTable{"duetime_tasks", "PRIMARY", "state <> 0 AND updated_at < ?"}
	endedTasks = tasksTable{"duetime_ended", "duetime_ended_id", "finished_at < ?"}
)

// endedStates are those whose tasks leave. A dead task stays: it may be retried.
var endedStates = []task.State{task.Done, task.Cancelled}

// as is the table as a statement names it.
func (t tasksTable) as() string {
	if t == liveTasks {
		return t.name
	}
	return t.name + " AS duetime_tasks"
}

// from is a FROM of the table, by an index.
func (t tasksTable) from(d Dialect, index string) string { return " FROM " + t.as() + d.Force(index) }

func (t tasksTable) fromByID(d Dialect) string { return t.from(d, t.byID) }

// mayHave reports whether rows of the state may be in the table; nil is any state.
func (t tasksTable) mayHave(state *task.State) bool {
	return t == liveTasks || state == nil || slices.Contains(endedStates, *state)
}

// withEnded adds to the rows of ids that were found in duetime_tasks, in id order, those that read finds among the others.
func withEnded(found []task.Task, ids []task.ID, read func(missing []task.ID) ([]task.Task, error)) ([]task.Task, error) {
	if len(found) == len(ids) {
		return found, nil
	}
	missing := make([]task.ID, 0, len(ids)-len(found))
	for n, id := range ids {
		if i := n - len(missing); i == len(found) || found[i].ID != id {
			missing = append(missing, id)
		}
	}
	ended, err := read(missing)
	if err != nil || len(ended) == 0 {
		return found, err
	}
	found = append(found, ended...)
	slices.SortFunc(found, func(a, b task.Task) int { return a.ID.Compare(b.ID) })
	return found, nil
}

// endedByID reads the rows of these ids in duetime_ended. It locks none, since they never change.
func (s *Store) endedByID(ctx context.Context, q sqlx.QueryerContext, ids []task.ID) (ended []task.Task, err error) {
	for part := range slices.Chunk(ids, task.MaxPerCall) {
		found, err := s.query(ctx, q, s.dialect.stateThen(wholeRow.list)+endedTasks.fromByID(s.dialect)+
			" WHERE id IN ("+marks(len(part))+") ORDER BY id", idArgs(part), writable{})
		if err != nil {
			return nil, err
		}
		ended = append(ended, found...)
	}
	return ended, nil
}

// Archive moves up to limit tasks that ended before the moment to duetime_ended, oldest first. It returns their number, and whether
// the round of calls goes on: see Purge. A row that somebody has locked stays until the next lap.
func (s *Store) Archive(ctx context.Context, before time.Time, limit int) (n int, more bool, err error) {
	_, more, _, err = s.archive.step(ctx, s, wanted{pages: byChange, where: toArchive + " AND "}, before, 0, limit, func(found []task.ID) (err error) {
		n, err = s.moveEnded(ctx, found, before)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("archive ended tasks: %w", err)
	}
	return n, more, nil
}

// toArchive is the condition on a row that may leave, but for its time: its end was its last change, so that the order of ends is that of
// changes. An id that duetime_ended has already is of a program that inserted it once more, long after its task had ended. Others stay until their
// retention is over.
var toArchive = "state IN (1, 2) AND dedup_key IS NULL AND finished_at = updated_at AND NOT EXISTS (SELECT 1 FROM duetime_ended AS e WHERE e.id = duetime_tasks.id)"

// moveEnded moves those of the rows that nobody has locked and that are still to leave, and returns their number.
func (s *Store) moveEnded(ctx context.Context, ids []task.ID, before time.Time) (int, error) {
	tx, err := s.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	var moving []task.ID
	var id task.ID
	err = forEach(ctx, tx, "SELECT id"+liveTasks.fromByID(s.dialect)+" WHERE id IN ("+marks(len(ids))+") AND "+toArchive+
		" AND updated_at < ? ORDER BY id"+s.dialect.skipLocked(), append(idArgs(sorted(ids)), before.UnixMilli()), []any{idBytes{&id}},
		func() { moving = append(moving, id) })
	if err != nil || len(moving) == 0 {
		return 0, err
	}
	of := " WHERE id IN (" + marks(len(moving)) + ")"
	for _, text := range []string{
		"INSERT INTO duetime_ended (" + names(columns) + ") SELECT " + names(columns) + liveTasks.fromByID(s.dialect) + of,
		s.dialect.deletePinned("duetime_tasks") + of,
	} {
		r, err := tx.ExecContext(ctx, text, idArgs(moving)...)
		if err != nil {
			return 0, err
		}
		if n, err := r.RowsAffected(); err != nil || n != int64(len(moving)) {
			return 0, fmt.Errorf("move %d ended tasks: %d rows: %w", len(moving), n, cmp.Or[error](err, &conflictError{n, int64(len(moving))}))
		}
	}
	if err := tx.Commit(); err != nil {
		return 0, err
	}
	return len(moving), s.dropLeftOrders(ctx, moving)
}

// endedOrder is the order of a state's rows in duetime_ended, by their ends.
func endedOrder(state task.State) indexOrder {
	return indexOrder{
		table: endedTasks, index: "PRIMARY", column: "finished_at", where: "state = " + strconv.Itoa(int(state)) + " AND ",
	}
}

var endedOrders = []indexOrder{endedOrder(task.Done), endedOrder(task.Cancelled)}

func sameID(a, b task.Task) bool { return a.ID == b.ID }

// unionEnded is a part of a statement once for each table, with its arguments: the ended rows come behind the others.
func unionEnded(part func(t tasksTable) (string, []any)) (text string, args []any) {
	var texts []string
	for _, t := range []tasksTable{liveTasks, endedTasks} {
		text, more := part(t)
		texts, args = append(texts, text), append(args, more...)
	}
	return strings.Join(texts, " UNION ALL "), args
}
