package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

const (
	columnGap     = 2  // blanks between two columns of a table
	fittedGap     = 1  // blanks between two columns of a table that has to fit a terminal
	minTableWidth = 68 // an id, times, and names cut to five columns: a narrower terminal wraps the lines
)

// writeTable writes lines with equal numbers of cells. Each column is as wide as its widest cell on a terminal: a Chinese
// character takes two columns, a combining accent none.
func writeTable(w io.Writer, lines [][]string) error {
	return writeLines(w, newTable(lines, columnGap).Render())
}

// writeFittedTable is writeTable for a terminal of this width: if the lines are longer, it cuts the cells of the
// shrinkable columns.
func writeFittedTable(w io.Writer, lines [][]string, width int, shrinkable ...int) error {
	text := newTable(lines, fittedGap).Render()
	if lipgloss.Width(text) > width {
		text = newTable(lines, fittedGap, shrinkable...).Width(max(width, minTableWidth)).Render()
	}
	return writeLines(w, text)
}

// newTable makes a table without borders. If there are shrinkable columns, all others keep their width.
func newTable(lines [][]string, gap int, shrinkable ...int) *table.Table {
	styles, widths := make([]lipgloss.Style, len(lines[0])), make([]int, len(lines[0]))
	shown := make([][]string, len(lines))
	for i, line := range lines {
		shown[i] = make([]string, len(line))
		for column, cell := range line {
			shown[i][column] = printable(cell)
			widths[column] = max(widths[column], lipgloss.Width(shown[i][column]))
		}
	}
	for column := range styles {
		if column < len(styles)-1 {
			styles[column] = styles[column].PaddingRight(gap)
		}
		if len(shrinkable) > 0 && !slices.Contains(shrinkable, column) {
			styles[column] = styles[column].Width(widths[column] + styles[column].GetPaddingRight())
		}
	}
	return table.New().Rows(shown...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(_, column int) lipgloss.Style { return styles[column] })
}

// writeLines writes a text without trailing blanks.
func writeLines(w io.Writer, text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}
