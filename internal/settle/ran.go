package settle

import (
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/rowform"
)

// ranOf returns how the member's try went, as its row keeps it. A reader's says nothing. The moments are of the worker's estimate of the
// database's clock, which may be corrected meanwhile: no duration is below 0.
func (t *transaction) ranOf(m *member, endedAt time.Time) int64 {
	if t.batch.takenAt.IsZero() {
		return 0
	}
	moment := rowform.Latest(m.row.RunAt, m.row.CreatedAt)
	hinted := rowform.Latest(moment, m.hint.CameAt)
	taken := rowform.Latest(hinted, t.batch.takenAt)
	return protocol.Ran{
		Worker: t.settler.number, Hinted: hinted.Sub(moment), Taken: taken.Sub(hinted),
		Started: t.startedAt.Sub(taken), Ended: endedAt.Sub(t.startedAt), Handler: m.took,
	}.Pack()
}
