package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// A purge waits for no row but those that it deletes, however small the table is: others may hold theirs for long.
func TestPurgesWaitForNobody(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{LockWait: time.Second})
	const kept, gone = 6, 30
	lines := make([]protocol.Event, 1000) // as many as a purge may delete at once
	for i := range lines {
		lines[i] = protocol.Event{At: t0.Add(-time.Hour), Name: protocol.EventMoved}
	}
	must(t, s.Record(t.Context(), nil, lines))
	if n := value[int](t)(s.PurgeHistory(t.Context(), t0, len(lines))); n != len(lines) {
		t.Errorf("purged %d lines of %d", n, len(lines))
	}
	old, before := t0.Add(2*time.Hour), t0.Add(3*time.Hour)
	rows := inserted(t, s, newTasks(t, kept+gone)...)
	var held task.ID // an operation
	var active task.Recurrence
	for i := range rows {
		o, r := operation(t, s, task.Operation{Filter: task.Filter{All: true}}), newRecurrence(t, "ann", fmt.Sprint("r", i))
		if i >= kept {
			o, r.State = transition.EndOperation(o, old), task.RecurrenceStopped
		} else {
			held, active = o.ID, r
		}
		line := protocol.Event{At: old, Task: rows[i].ID, Name: protocol.EventMoved}
		inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) {
			must(t, s.SaveOperation(ctx, tx, o))
			must(t, s.InsertRecurrence(ctx, tx, r))
			if i >= kept {
				must(t, worldtest.Finish(ctx, s, tx, rows[i:i+1], old))
				must(t, s.Record(ctx, tx, []protocol.Event{line}))
			}
		})
	}
	must(t, exec(s.DB(), "ANALYZE TABLE duetime_tasks, duetime_operations, duetime_recurrences, duetime_history"))
	holder := begin(t, s)
	value[[]task.Task](t)(s.Lock(t.Context(), holder, ids(rows[:1])))
	value[[]task.Recurrence](t)(s.LockRecurrences(t.Context(), holder, []task.ID{active.ID}))
	_, found, err := s.LockOperation(t.Context(), holder, held)
	must(t, err)
	must(t, s.Record(t.Context(), holder, []protocol.Event{{At: before.Add(time.Hour), Task: rows[0].ID, Name: protocol.EventMoved}}))
	for name, purge := range map[string]func(context.Context, time.Time, int) (int, error){
		"tasks": func(ctx context.Context, before time.Time, limit int) (int, error) {
			n, _, _, err := s.Purge(ctx, protocol.Purgeable{}, before, limit)
			return n, err
		},
		"history": s.PurgeHistory, "operations": s.PurgeOperations, "recurrences": s.PurgeRecurrences,
	} {
		if n, err := purge(t.Context(), before, 100); n != gone || err != nil || !found {
			t.Errorf("%s: purged %d of %d: %v", name, n, gone, err)
		}
	}
}
