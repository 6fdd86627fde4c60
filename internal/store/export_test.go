package store

import (
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// PageSQL is what Pending or Changed says after the table, for EXPLAIN.
func PageSQL(pending bool, from, to time.Time, after task.Cursor, limit int) (string, []any) {
	way := byChange
	if pending {
		way = byRunAt
	}
	return way.sql(MySQL, window{from, to, after, limit})
}
