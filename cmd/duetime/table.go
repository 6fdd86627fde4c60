package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// stamp is RFC 3339 to the millisecond.
const stamp = "2006-01-02T15:04:05.000Z07:00"

// leastColumn is how narrow a column of names may become.
const leastColumn = 5

// writeNarrow writes a table that fits the terminal: times count from now, and kind and owner are cut as far as it takes.
// The id can't be cut, for it is what the next command needs.
func (t *tool) writeNarrow(rows []task.Task, width int) error {
	cells := [][]string{{"TASK", "KIND", "OWNER", "STATE", "DUE", "TRIES"}}
	const kind, owner = 1, 2
	now := time.Now()
	for _, row := range rows {
		cells = append(cells, []string{
			row.ID.String(), row.Kind, row.Owner, row.State.String(), relative(row.DueAt.Sub(now)), fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts),
		})
	}
	cells = aligned(cells, func(widths []int) {
		sum := len(widths) - 1
		for _, w := range widths {
			sum += w
		}
		for ; sum > width && max(widths[kind], widths[owner]) > leastColumn; sum-- {
			if widths[kind] > widths[owner] {
				widths[kind]--
			} else {
				widths[owner]--
			}
		}
	})
	for _, line := range cells {
		_, _ = fmt.Fprintln(t.out, strings.TrimRight(strings.Join(line, " "), " "))
	}
	return nil
}

// relative is a time from now in a few letters: 3m ago, now, in 2h.
func relative(d time.Duration) string {
	switch {
	case d.Abs() < time.Second:
		return "now"
	case d < 0:
		return short(-d) + " ago"
	default:
		return "in " + short(d)
	}
}

// short is a duration in its largest unit.
func short(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{365 * 24 * time.Hour, "y"}, {24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if d >= unit.size {
			return fmt.Sprintf("%d%s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// thousands groups the digits of a number.
func thousands[N ~int | ~int64](n N) string {
	s := fmt.Sprint(int64(n))
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// writeTask writes what one task is, line by line.
func (t *tool) writeTask(row task.Task) error {
	now := time.Now()
	moment := func(at time.Time) string {
		return fmt.Sprintf("%s (%s)", t.stamped(at), relative(at.Sub(now)))
	}
	var lines [][]string
	line := func(name, text string) {
		if text != "" {
			lines = append(lines, []string{name, oneLine(text)})
		}
	}
	line("task", row.ID.String())
	line("kind", row.Kind)
	line("owner", row.Owner)
	line("subject", row.Subject)
	line("queue", row.Queue)
	line("shard", strconv.Itoa(row.Shard))
	line("state", row.State.String())
	line("due", moment(row.DueAt))
	if !row.RunAt.Equal(row.DueAt) {
		line("next try", moment(row.RunAt))
	}
	if !row.FinishedAt.IsZero() {
		line("finished", moment(row.FinishedAt))
	}
	line("attempts", fmt.Sprintf("%d of %d", row.Attempt, row.MaxAttempts))
	line("version", strconv.FormatInt(row.Version, 10))
	line("payload", string(row.Payload))
	line("last error", row.LastError)
	return writeColumns(t.out, lines)
}

// writeLife writes what one task is, and what became of it.
func (t *tool) writeLife(row task.Task, life []happened) error {
	if err := t.writeTask(row); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(t.out)
	lines := make([][]string, len(life))
	for i, h := range life {
		lines[i] = []string{t.stamped(time.UnixMilli(h.AtMs)), h.Event, h.Actor, oneLine(h.Detail)}
	}
	return writeColumns(t.out, lines)
}
