package store

import (
	"context"
	"database/sql/driver"
	"io/fs"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// PageSQL is the text of Pending or Changed after the columns, for EXPLAIN.
func PageSQL(pending bool, from, to time.Time, after protocol.Cursor, limit int) (string, []any) {
	order := byChange
	if pending {
		order = byRunAt
	}
	return order.sql(MySQL, window{from, to, after, limit})
}

// OpenThrough is Open with a layer between the driver and the guard, such as a proxy.
func OpenThrough(dsn string, o Options, wrap func(driver.Connector) driver.Connector) (*Store, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	configure(cfg, o)
	settings := sessionSettings(cfg, o)
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	s := &Store{db: newPool(wrap(c), settings, o), dialect: MySQL, tableWait: o.tableWait()}
	o.changesTables = true
	s.openPatient = func(time.Duration) (*sqlx.DB, error) { return openMySQL(dsn, o, func(*mysql.Config) {}) }
	return s, nil
}

// RetirePool makes a handle close all its connections when they are taken from the pool.
func (s *Store) RetirePool() {
	c, err := s.db.Connx(context.Background())
	if err != nil {
		panic(err)
	}
	_ = c.Raw(func(dc any) error { dc.(*conn).retirePool(); return nil })
	_ = c.Close()
}

// LookSQL is the statement of Look that reads rows up to the page's end, for EXPLAIN.
func LookSQL(l protocol.Look, end protocol.Cursor) (string, []any) {
	condition, values := lookSQL(MySQL, l)
	text, args := lookOrder(l).selectSQL(MySQL, window{l.From, l.To, l.After, l.Limit}, end, condition, values, l.Limit)
	return "SELECT " + entry.list + text, args
}

// ExceptSQL are the statements of PendingExcept, for EXPLAIN.
func ExceptSQL(except []string, from, to time.Time, after, next protocol.Cursor, limit int) (end string, endArgs []any, page string, pageArgs []any) {
	w := window{from, to, after, limit}
	end, endArgs = byRunAt.endSQL(MySQL, w)
	page, pageArgs = byRunAt.selectSQL(MySQL, w, next, "queue NOT IN ("+marks(len(except))+")", anys(except), w.limit)
	page = "SELECT " + entry.list + page
	return end, endArgs, page, pageArgs
}

// Apply runs the migrations of some files and writes no layout, as if an older program had made the schema.
func (s *Store) Apply(ctx context.Context, files fs.FS) error {
	db, done, err := s.patient()
	if err != nil {
		return err
	}
	defer done()
	lastDB, lastDone, err := s.patientFor(buildWait)
	if err != nil {
		return err
	}
	defer lastDone()
	return s.applyAll(ctx, db, lastDB, files, func(int, int) {})
}

// ListSQL is the statement of List, for EXPLAIN.
func ListSQL(f Filter) (string, []any) {
	where, args := f.where(MySQL, liveTasks)
	return "SELECT " + wholeRow.list + where, args
}

// LabelledSQL is the statement by which a purge looks for labels, for EXPLAIN.
func LabelledSQL(s *Store, ids []task.ID) (string, []any) { return s.labelledSQL(ids), idArgs(ids) }

// DeleteLabelledSQL is the statement by which a purge deletes tasks with labels, for EXPLAIN.
func DeleteLabelledSQL(ids []task.ID, before time.Time) (string, []any) {
	return deleteLabelledSQL(liveTasks, len(ids)), append(idArgs(ids), before.UnixMilli())
}

// BeforePurge returns a Purge that calls fn once it has chosen the rows.
func BeforePurge(s *Store, fn func()) func(ctx context.Context, before time.Time, limit int) (int, error) {
	return func(ctx context.Context, before time.Time, limit int) (int, error) {
		text, args := purgeable(protocol.Purgeable{}, before)[0].sql(s.dialect, before, protocol.Cursor{}, protocol.Cursor{}, limit)
		found, _, err := s.readCursors(ctx, text, args)
		if err != nil {
			return 0, err
		}
		fn()
		return len(found), s.deleteFinished(ctx, liveTasks, found, before)
	}
}

// BeforePurgeGroups returns a PurgeGroups that calls fn once it has chosen the groups.
func BeforePurgeGroups(s *Store, fn func()) func(ctx context.Context, before time.Time, limit int) (int, error) {
	return func(ctx context.Context, before time.Time, limit int) (int, error) {
		names, err := s.oldGroups(ctx, before, limit)
		if err != nil {
			return 0, err
		}
		fn()
		return len(names), s.deleteGroups(ctx, names, before)
	}
}

// DropOrdersOfNobody is what a purge does with the rows of duetime_orders whose tasks had no row.
func DropOrdersOfNobody(ctx context.Context, s *Store, ids []task.ID) error {
	return s.dropOrdersOfNobody(ctx, ids)
}

// DeleteOperations is what PurgeOperations does with the operations that it has chosen.
func DeleteOperations(ctx context.Context, s *Store, ids []task.ID, before time.Time) error {
	return s.deleteOver(ctx, "duetime_operations", ids, before, int64(task.OperationCancelled), int64(task.OperationDone))
}

// SetPurgeScan sets how many entries of the index a call of Purge examines.
func SetPurgeScan(s *Store, n int) { s.purgeScan = n }

// SetMaxCounted sets how many rows of a state Live counts.
func SetMaxCounted(s *Store, n int) { s.maxCounted = n }

// SetOwnedAhead sets how many ids of an owner are read at once.
func SetOwnedAhead(s *Store, n int) { s.ownedAhead = n }

// PurgeSQL are the statements of Purge that find a page's end, and rows up to it, in duetime_tasks and in duetime_ended, for EXPLAIN.
func PurgeSQL(d Dialect, of protocol.Purgeable, before time.Time, after, end protocol.Cursor, limit int) (ofEnd, ofRows [2]Statement) {
	all := purgeable(of, before)
	for i, w := range all[:2] {
		ofEnd[i].Text, ofEnd[i].Args = w.pages.endSQL(d, window{to: before, after: after, limit: purgeScan})
		ofRows[i].Text, ofRows[i].Args = w.sql(d, before, after, end, limit)
	}
	return ofEnd, ofRows
}

// Statement is a statement for EXPLAIN.
type Statement struct {
	Text string
	Args []any
}

// ProductOf names a server by the variables version and version_comment.
func ProductOf(version, comment string) string { return productOf(version, comment).String() }

// CheckProduct refuses a server by these variables.
func CheckProduct(ctx context.Context, version, comment string) error {
	return (&Store{}).checkProduct(ctx, productOf(version, comment))
}

// ReadFloor is Floor that asks the server even within a second of the last time. The server gives each read up after the limit; 0 leaves
// the limit as it is.
func ReadFloor(ctx context.Context, s *Store, limit time.Duration) (time.Time, error) {
	s.floor.mu.Lock()
	s.floor.read, s.floor.atFirst = time.Now().Add(-floorInterval), limit
	s.floor.mu.Unlock()
	return s.Floor(ctx)
}

// SetFloor sets what ReadFloor has learnt.
func SetFloor(s *Store, at time.Time) { s.floor.at = at.UnixMilli() }

// WalkEndedSQL are the statements of a walk through ended rows that find a page's end, and its entries, for EXPLAIN.
func WalkEndedSQL(after, end protocol.Cursor) []Statement {
	q := WalkQuery{State: task.Done, Ended: true, After: after, Scan: 500}
	ofEnd, endArgs := q.order().endSQL(MySQL, q.window())
	ofRows, args := q.order().sqlUntil(MySQL, q.window(), end)
	return []Statement{{ofEnd, endArgs}, {"SELECT id" + ofRows, args}}
}

// LeftQueue is what the rows under a queue's name say.
type LeftQueue = leftQueue

// LeftQueues reads which queues have rows.
func (s *Store) LeftQueues(ctx context.Context) (map[string]LeftQueue, error) {
	return s.leftQueues(ctx)
}

// PurgeQueue is the last step of PurgeQueues, for a queue as it was read.
func (s *Store) PurgeQueue(ctx context.Context, queue string, q LeftQueue) (purged bool, err error) {
	return s.purgeQueue(ctx, queue, q)
}
