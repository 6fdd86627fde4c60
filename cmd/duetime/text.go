package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"
)

// printable replaces the characters that a terminal would execute. Rows of other programs, and the texts of errors, may
// hold escape sequences and marks that change the direction of writing.
func printable(s string) string {
	const joiner = '\u200d' // keeps the parts of one emoji together
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != joiner {
			return '?'
		}
		return r
	}, s)
}

// oneLine joins the lines of a text, such as those of several errors.
func oneLine(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// cut shortens a text to a width without splitting a character.
func cut(s string, width int) string { return ansi.Truncate(s, width, "…") }

// fit cuts or pads a text to a width.
func fit(s string, width int) string {
	return lipgloss.PlaceHorizontal(width, lipgloss.Left, cut(s, width))
}

// sinceNow shows a moment in Unix milliseconds relative to now.
func sinceNow(ms int64) string { return relative(time.Until(time.UnixMilli(ms))) }

// relative shows a time relative to now in a few letters: 3m ago, now, in 2h.
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

// short shows a duration in its largest unit.
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
func thousands[N ~int | ~int64](n N) string { return humanize.Comma(int64(n)) }

func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}
