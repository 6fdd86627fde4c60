package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duetime/duetime/pkg/task"
)

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
	widths, sum := make([]int, len(cells[0])), len(cells[0])-1
	for column := range widths {
		for _, line := range cells {
			widths[column] = max(widths[column], utf8.RuneCountInString(line[column]))
		}
		sum += widths[column]
	}
	for ; sum > width && max(widths[kind], widths[owner]) > leastColumn; sum-- {
		if widths[kind] > widths[owner] {
			widths[kind]--
		} else {
			widths[owner]--
		}
	}
	for _, line := range cells {
		for column, cell := range line {
			line[column] = fit(cell, widths[column])
		}
		_, _ = fmt.Fprintln(t.out, strings.TrimRight(strings.Join(line, " "), " "))
	}
	return nil
}

// fit cuts or pads a text to so many columns. A name may hold anything but control characters.
func fit(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

// cut shortens a text to so many columns.
func cut(s string, width int) string {
	if letters := []rune(s); len(letters) > width {
		return string(letters[:width-1]) + "…"
	}
	return s
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
