package reconcile

import (
	"context"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// maxFailedPages bounds the pages in a row that have only tasks of failed shards; then the pass ends.
const maxFailedPages = 8

// walk is a way through rows in their order, page by page. It keeps its place from one pass to the next.
type walk struct {
	after protocol.Cursor // the last row of the page before; zero at the beginning
}

func (w *walk) underWay() bool { return w.after != protocol.Cursor{} }

// readPage reads the rows behind a cursor, in order, and returns where the next page begins; zero after the last page.
type readPage func(ctx context.Context, after protocol.Cursor) (rows []task.Task, next protocol.Cursor, err error)

// pages hands page after page to do, until it has done enough of them; nil: until the end. It reports whether it has come to the
// end: then the next walk begins anew. If do fails, the walk stays before the page. Between two pages it waits as the sweep says.
func (w *walk) pages(
	ctx context.Context, s *sweep, read readPage, enough func(pages int) bool, do func(rows []task.Task) error,
) (over bool, err error) {
	failed := 0
	for n := 1; ; n++ {
		rows, next, err := read(ctx, w.after)
		if err != nil {
			return false, err
		}
		s.looked += len(rows)
		if err := do(rows); err != nil {
			return false, err
		}
		w.after = next
		if failed++; len(rows) == 0 || len(s.index.without(rows)) > 0 {
			failed = 0
		}
		switch {
		case !w.underWay():
			return true, nil
		case failed == maxFailedPages:
			return false, s.index.err()
		case enough != nil && enough(n):
			return false, nil
		}
		if err := s.wait(ctx); err != nil {
			return false, err
		}
	}
}

// upTo is enough after n pages.
func upTo(n int) func(pages int) bool { return func(pages int) bool { return pages >= n } }

// pending reads pages of the pending rows that are due in [from, to), but for those of some queues.
func (s *sweep) pending(from, to time.Time, limit int, except ...string) readPage {
	return func(ctx context.Context, after protocol.Cursor) ([]task.Task, protocol.Cursor, error) {
		rows, next, err := s.store.PendingExcept(ctx, except, from, to, after, limit)
		if next != (protocol.Cursor{}) {
			s.looked += limit - len(rows) // those of the other queues
		}
		return rows, next, err
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
