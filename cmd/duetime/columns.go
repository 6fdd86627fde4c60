package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// columnGap is how many blanks stand between two columns of a table.
const columnGap = 2

// writeColumns writes lines of cells as a table whose columns are as wide as their widest cell. Widths are what a terminal
// shows: a Chinese character takes two columns, an accent that is combined with its letter none.
func writeColumns(w io.Writer, lines [][]string) error {
	for _, line := range aligned(lines, nil) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(line, strings.Repeat(" ", columnGap)), " ")); err != nil {
			return err
		}
	}
	return nil
}

// aligned returns the lines with each cell printable and, but for a line's last, filled up to its column's width. narrow may reduce the widths;
// longer cells are cut then.
func aligned(lines [][]string, narrow func(widths []int)) [][]string {
	var widths []int
	out := make([][]string, len(lines))
	for i, line := range lines {
		out[i] = make([]string, len(line))
		for column, cell := range line {
			out[i][column] = printable(cell)
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], columnsOf(out[i][column]))
		}
	}
	if narrow != nil {
		narrow(widths)
	}
	for _, line := range out {
		for column, cell := range line {
			if line[column] = cut(cell, widths[column]); column < len(line)-1 {
				line[column] = fit(cell, widths[column])
			}
		}
	}
	return out
}

// columnsOf returns how many columns a terminal needs for a text.
func columnsOf(s string) int { return uniseg.StringWidth(s) }

// fit cuts or pads a text to so many columns.
func fit(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(width-columnsOf(s), 0))
}

// cut shortens a text to at most so many columns, between two characters.
func cut(s string, width int) string {
	if columnsOf(s) <= width {
		return s
	}
	var kept strings.Builder
	for left, state, room := s, -1, width-columnsOf("…"); left != ""; {
		var character string
		var columns int
		character, left, columns, state = uniseg.FirstGraphemeClusterInString(left, state)
		if room -= columns; room < 0 {
			break
		}
		kept.WriteString(character)
	}
	return kept.String() + "…"
}

// printable replaces what a terminal would obey instead of showing. Rows that other programs insert, and the texts of
// errors, may hold escape sequences and marks that turn the direction of writing.
func printable(s string) string {
	const joiner = '\u200d' // keeps the parts of one emoji together
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != joiner {
			return '?'
		}
		return r
	}, s)
}
