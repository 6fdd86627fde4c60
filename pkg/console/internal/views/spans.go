package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/store"
)

// A view has to answer however many rows there are. So its figures come from bounded reads: of each span of time, entries of an
// index are counted up to a limit, and some rows are read as a sample of the counted ones.

const (
	countBudget  = 200_000 // index entries that one call counts
	sampleBudget = 4000    // rows that one call reads as samples
	maxSpans     = 240     // in one statement, which opens the table for each: MySQL keeps some thousand open tables
)

// indexOrder is an index whose entries are counted.
type indexOrder struct {
	table         string // duetime_tasks if it is empty
	index, column string
	where         string // a further condition, with its AND
}

var (
	byChange = indexOrder{index: "duetime_tasks_updated", column: "updated_at"}
	byEnd    = indexOrder{table: "duetime_ended", index: "PRIMARY", column: "finished_at", where: "state = 1 AND "} // of tasks that were done a while ago
	byRunAt  = indexOrder{index: "duetime_tasks_due", column: "run_at", where: "state = 0 AND "}                    // of pending rows
)

// changes are the indexes that have all tasks that were done, each in one of them.
var changes = []indexOrder{byChange, byEnd}

func (o indexOrder) from(d store.Dialect) string {
	return " FROM " + cmp.Or(o.table, "duetime_tasks") + d.Force(o.index)
}

// span is a range of an index: moments in [from, to), in Unix milliseconds.
type span struct{ from, to int64 }

// spansOf divides the time from a moment on into spans of one length.
func spansOf(from time.Time, length time.Duration, n int) []span {
	spans := make([]span, n)
	for i := range spans {
		spans[i] = span{from.Add(time.Duration(i) * length).UnixMilli(), from.Add(time.Duration(i+1) * length).UnixMilli()}
	}
	return spans
}

// counted is what was counted of a span.
type counted struct {
	entries int64
	last    int64 // moment of the last counted entry, in Unix milliseconds
	cut     bool  // the span may have more entries
}

// countSpans counts the entries of each span, at most budget entries altogether. First all spans may use equal parts of the
// budget. Then those that have more entries are counted anew, with equal parts of what is left, while this at least doubles
// their part: so a minute of many tasks among others of few is counted in full.
func (v Views) countSpans(ctx context.Context, order indexOrder, spans []span, budget int) ([]counted, error) {
	counts := make([]counted, len(spans))
	open := make([]int, len(spans))
	for i := range open {
		open[i] = i
	}
	limit := 0
	for len(open) > 0 && budget/len(open) >= max(1, 2*limit) {
		limit = budget / len(open)
		var rows []struct {
			Span            int
			Entries, LastAt int64
		}
		var longer []int
		text, args := order.countSQL(v.Store.Dialect(), spans, open, limit)
		text = store.SelectUntil(ctx) + strings.TrimPrefix(text, "SELECT ")
		if err := v.Store.DB().SelectContext(ctx, &rows, text, args...); err != nil {
			return nil, fmt.Errorf("count %d spans of %s: %w", len(open), order.column, err)
		}
		for _, r := range rows {
			c := counted{r.Entries, r.LastAt, r.Entries == int64(limit)}
			counts[r.Span] = c
			budget -= int(c.entries)
			if c.cut {
				longer = append(longer, r.Span)
			}
		}
		open = longer
	}
	for _, i := range open {
		counts[i].cut = true
	}
	return counts, nil
}

// countSQL counts the entries of some spans, each up to the limit. The server reads only the index, in its order.
func (o indexOrder) countSQL(d store.Dialect, spans []span, of []int, limit int) (string, []any) {
	texts := make([]string, len(of))
	args := make([]any, 0, 2*len(of))
	for k, i := range of {
		texts[k] = fmt.Sprintf("SELECT %d AS span, COUNT(*) AS entries, COALESCE(MAX(%[2]s), 0) AS lastat"+
			" FROM (SELECT %[2]s%s WHERE %s%[2]s >= ? AND %[2]s < ? ORDER BY %[2]s LIMIT %[5]d) AS s%[1]d",
			i, o.column, o.from(d), o.where, limit)
		args = append(args, spans[i].from, spans[i].to)
	}
	return strings.Join(texts, " UNION ALL "), args
}

// sampleRows returns how many rows to read of each counted span, so that all samples together keep to the budget. Half of it is
// shared equally, the other half by how many rows a span has, or may have. Spans with few entries are read in full, and leave
// their equal part to the others.
func sampleRows(counts []counted, whole func(i int) float64, budget int64) []int64 {
	rows := make([]int64, len(counts))
	entries, all := int64(0), 0.0
	for i, c := range counts {
		rows[i] = c.entries
		entries, all = entries+c.entries, all+whole(i)
	}
	if entries <= budget {
		return rows
	}
	level := equalPart(rows, budget/2)
	for i := range rows {
		if rows[i] > level {
			rows[i] = min(rows[i], level+int64(float64(budget)/2*whole(i)/all))
		}
	}
	return rows
}

// equalPart returns the highest bound for each of the numbers so that they add up to the budget, and at least 1.
func equalPart(numbers []int64, budget int64) int64 {
	left := slices.Sorted(slices.Values(numbers))
	for len(left) > 0 && left[0] <= budget/int64(len(left)) {
		budget -= left[0]
		left = left[1:]
	}
	return max(1, budget/int64(max(1, len(left))))
}

// sampleSQL reads a list of columns of about so many rows of each span, from the counted part of the span. Rows are chosen by
// the last bytes of their ids, which are random: so each counted row is as likely as any other, and the server chooses in the
// index, before it looks a row up.
func (o indexOrder) sampleSQL(d store.Dialect, spans []span, counts []counted, rows []int64, list string) (string, []any) {
	var texts []string
	var args []any
	for i, c := range counts {
		if c.entries == 0 {
			continue
		}
		chosen := ""
		if rows[i] < c.entries {
			chosen = fmt.Sprintf(" AND SUBSTR(id, 15, 2) < x'%04X'", max(1, rows[i]<<16/c.entries))
		}
		texts = append(texts, limited(d, fmt.Sprintf(
			"SELECT %d AS span, %s%s WHERE %s%[5]s >= ? AND %[5]s <= ?%s LIMIT %d",
			i, list, o.from(d), o.where, o.column, chosen, 2*rows[i])))
		args = append(args, spans[i].from, c.last)
	}
	return strings.Join(texts, " UNION ALL "), args
}

// limited makes a SELECT with a limit a part of a UNION. MySQL would write a part that selects from it into a temporary table.
func limited(d store.Dialect, text string) string {
	if d == store.SQLite {
		return "SELECT * FROM (" + text + ")"
	}
	return "(" + text + ")"
}
