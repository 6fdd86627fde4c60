package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Columns of a table on a terminal; the id can't be cut, for it is what the next command needs.
const (
	idWidth    = 36
	stateWidth = 9
	whenWidth  = 8
	triesWidth = 7
)

// writeNarrow writes a table that fits the terminal: times count from now, and kind and owner share what is left.
func (t *tool) writeNarrow(rows []task.Task, width int) error {
	left := max(width-idWidth-stateWidth-whenWidth-triesWidth-5, 12)
	kind := left * 3 / 5
	now := time.Now()
	line := func(id, k, owner, state, when, tries string) {
		text := fmt.Sprintf("%-*s %s %s %-*s %-*s %s", idWidth, id, fit(k, kind), fit(owner, left-kind), stateWidth, state, whenWidth, when, tries)
		_, _ = fmt.Fprintln(t.out, strings.TrimRight(text, " "))
	}
	line("TASK", "KIND", "OWNER", "STATE", "DUE", "ATTEMPT")
	for _, row := range rows {
		line(row.ID.String(), row.Kind, row.Owner, row.State.String(), relative(row.DueAt.Sub(now)),
			fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts))
	}
	return nil
}

// fit cuts or pads a text to so many columns. A name may hold anything but control characters.
func fit(s string, width int) string {
	letters := []rune(s)
	if len(letters) > width {
		return string(letters[:width-1]) + "…"
	}
	return s + strings.Repeat(" ", width-len(letters))
}

// relative is a time from now in two letters and a few digits: 3m ago, in 2h.
func relative(d time.Duration) string {
	if d < 0 {
		return short(-d) + " ago"
	}
	return "in " + short(d)
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
