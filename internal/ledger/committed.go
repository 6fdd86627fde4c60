package ledger

import (
	"context"
	"slices"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// BeforeJoined calls InChange before the COMMIT of a transaction that somebody else has begun, who may have rolled back to a savepoint: it
// reads the rows. After an error the transaction must not commit.
func (l *Ledger) BeforeJoined(ctx context.Context, tx *Tx) error {
	touched := tx.Touched(0)
	if l.hooks == nil || l.hooks.in == nil || len(touched) == 0 {
		return nil
	}
	rows, err := tx.rows.Get(ctx, tx.q, protocol.IDs(touched))
	if err != nil {
		return err
	}
	return l.hooks.callIn(ctx, tx, tx.standing(rows))
}

// FollowCommitted is Follow for a transaction that has touched tasks and that somebody else has committed, who may have rolled back to a
// savepoint before. It reads the rows, and records what is committed. With wait it waits for the puts. It returns false if none of the
// changes is committed. If the rows can't be read, the tasks go to compensation, and the answer is true.
func (l *Ledger) FollowCommitted(ctx context.Context, tx *Tx, wait bool) bool {
	touched := tx.Touched(0)
	rows, err := l.store.Get(ctx, nil, protocol.IDs(touched))
	if err != nil {
		l.Unknown(tx) // the daemon reads the rows
		return true
	}
	if wait {
		l.writer.PutAndWait(ctx, rows)
	} else {
		l.writer.Enqueue(ctx, rows)
	}
	committed := make(map[task.ID]int64, len(rows))
	for _, row := range rows {
		committed[row.ID] = row.Version
	}
	if l.hooks != nil && l.hooks.on != nil {
		l.hooks.report(tx.standing(rows))
	}
	if !tx.stands(committed) {
		return false
	}
	undone := tx.undone(committed)
	if len(undone) == 0 {
		l.record(ctx, tx)
		return true
	}
	// Other lines may tell of changes that were taken back too.
	l.history.add(slices.DeleteFunc(tx.Events(), func(e protocol.Event) bool { return committed[e.Task] == 0 || undone[e.Task] }))
	return true
}

// stands reports whether one of the changes is committed.
func (t *Tx) stands(committed map[task.ID]int64) bool {
	for row := range t.Written(0) {
		if committed[row.ID] >= row.Version {
			return true
		}
	}
	return false
}

// undone returns the tasks with a version that was taken back: the committed row is older, or the version was written twice.
// A new row is no change: scheduling the same Spec again finds version 1 once more.
func (t *Tx) undone(committed map[task.ID]int64) map[task.ID]bool {
	undone, newest := map[task.ID]bool{}, map[task.ID]int64{}
	for row := range t.Written(0) {
		id, version := row.ID, row.Version
		if version > committed[id] || version > 1 && version <= newest[id] {
			undone[id] = true
		}
		newest[id] = max(newest[id], version)
	}
	return undone
}
