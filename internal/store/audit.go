package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// RowAudit counts rows that are wrong by themselves, regardless of the index and other tables.
type RowAudit struct {
	Rows           int64   // that were read
	Premature      int64   // done before they were due
	FirstPremature task.ID // zero for none
	Invalid        int64   // that violate a condition which every transition keeps
	FirstInvalid   task.ID // zero for none
}

// auditPage is how many rows one statement reads. It takes some ten milliseconds: an audit of millions delays nobody.
const auditPage = 20_000

// premature selects done rows whose effect came before the due time, both on the database's clock.
const premature = "state = 1 AND finished_at > 0 AND finished_at < due_at"

// invalid selects rows that no transition of ours makes: another program wrote them, or a bug of ours did.
var invalid = strings.Join([]string{
	"state NOT IN (0, 1, 2, 3)",
	"version < 1",
	"max_attempts < 1",
	"attempt < 0",
	"attempt > max_attempts",
	"run_at < due_at",
	"state = 0 AND run_at >= 2199023255552", // 2^41: no score can hold it
	"state = 0 AND finished_at > 0",
	"state <> 0 AND COALESCE(finished_at, 0) <= 0",
	"state <> 0 AND SUBSTR(dedup_key, 1, 1) = 'k'", // no new task could have the key until the row is purged
}, " OR ")

const auditColumns = "id, state, due_at, run_at, version, attempt, max_attempts, dedup_key, finished_at"

// AuditRows reads both tables, in short statements without locks: duetime_tasks by its primary key, and then duetime_ended.
func (s *Store) AuditRows(ctx context.Context) (RowAudit, error) {
	var all RowAudit
	from, args := "", []any{}
	for {
		page, last, err := s.auditPage(ctx, liveTasks.fromByID(s.dialect)+from+" ORDER BY id LIMIT ?", append(args, auditPage))
		if err != nil {
			return all, fmt.Errorf("audit rows: %w", err)
		}
		all.add(page)
		if page.Rows < auditPage {
			break
		}
		from, args = " WHERE id > ?", []any{last}
	}
	for _, state := range endedStates {
		order, w := endedOrder(state), window{to: endOfTime, limit: auditPage}
		for more := true; more; {
			next, err := s.pageEnd(ctx, order, w)
			if err != nil {
				return all, fmt.Errorf("audit %s rows: %w", state, err)
			}
			text, args := order.sqlUntil(s.dialect, window{to: w.to, after: w.after, limit: slack * w.limit}, next)
			page, _, err := s.auditPage(ctx, text, args)
			if err != nil {
				return all, fmt.Errorf("audit %s rows: %w", state, err)
			}
			all.add(page)
			w.after, more = next, next != (protocol.Cursor{})
		}
	}
	return all, nil
}

func (a *RowAudit) add(page RowAudit) {
	a.Rows, a.Premature, a.Invalid = a.Rows+page.Rows, a.Premature+page.Premature, a.Invalid+page.Invalid
	a.FirstPremature = cmp.Or(a.FirstPremature, page.FirstPremature)
	a.FirstInvalid = cmp.Or(a.FirstInvalid, page.FirstInvalid)
}

// auditPage audits a page of rows, and returns the highest id.
func (s *Store) auditPage(ctx context.Context, from string, args []any) (page RowAudit, last []byte, err error) {
	countAndFirst := func(condition string) string {
		return "COALESCE(SUM(CASE WHEN " + condition + " THEN 1 ELSE 0 END), 0), MIN(CASE WHEN " + condition + " THEN id END)"
	}
	var firstPremature, firstInvalid []byte
	err = s.db.QueryRowxContext(ctx, "SELECT COUNT(*), MAX(id), "+countAndFirst(premature)+", "+countAndFirst(invalid)+" FROM (SELECT "+auditColumns+
		from+") AS page", args...).
		Scan(&page.Rows, &last, &page.Premature, &firstPremature, &page.Invalid, &firstInvalid)
	copy(page.FirstPremature[:], firstPremature)
	copy(page.FirstInvalid[:], firstInvalid)
	return page, last, err
}
