package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

const (
	columnGap     = 2  // blanks between two columns of a table
	fittedGap     = 1  // blanks between two columns of a table that has to fit a terminal
	minTableWidth = 68 // an id, times, and names cut to five columns: a narrower terminal wraps the lines
)

// jsonFlag adds --json to a command whose answer show writes.
func (t *tool) jsonFlag(cmd *cobra.Command, form string) {
	cmd.Flags().BoolVar(&t.json, "json", false, "write "+form)
}

const (
	jsonObject = "one JSON object"
	jsonArray  = "a JSON array"
)

// show writes an answer by write or, with --json, as JSON.
func show[V any](t *tool, answer V, write func(V) error) error {
	if !t.json {
		return write(answer)
	}
	e := json.NewEncoder(t.out)
	e.SetIndent("", "  ")
	return e.Encode(answer)
}

// showing returns a function that shows what a call has answered, or returns its error.
func showing[V any](t *tool, write func(V) error) func(answer V, err error) error {
	return func(answer V, err error) error {
		if err != nil {
			return err
		}
		return show(t, answer, write)
	}
}

// showPage is show for a page of rows. It names the next page on standard error: standard output has only rows.
func showPage[V any](t *tool, rows []V, next string, write func([]V) error) error {
	err := show(t, rows, write)
	if err == nil && next != "" {
		_, err = fmt.Fprintf(t.errs, "there are more: go on with --after %s\n", next)
	}
	return err
}

// shows makes the command read rows and show them.
func shows[V any](t *tool, cmd *cobra.Command, read func(*console.Console, context.Context) ([]V, error), write func([]V) error) {
	t.jsonFlag(cmd, jsonArray)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return t.with(cmd.Context(), func(c *console.Console) error {
			return showing(t, write)(read(c, cmd.Context()))
		})
	}
}

// pages makes the command read a page of what it lists, and show it.
func pages[V any](
	t *tool, cmd *cobra.Command, what string, write func([]V) error,
	read func(ctx context.Context, c *console.Console, after string, limit int) (rows []V, next string, err error),
) {
	var place placeFlags
	t.addPlaceFlags(cmd, &place, what)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLimit(place.limit); err != nil {
			return err
		}
		return t.with(cmd.Context(), func(c *console.Console) error {
			rows, next, err := read(cmd.Context(), c, place.after, place.limit)
			if wrong, is := errors.AsType[*task.FieldError](err); is && wrong.Field == "cursor" {
				return fmt.Errorf("--after %s: %q", wrong.Problem, place.after)
			}
			if err != nil {
				return err
			}
			return showPage(t, rows, next, write)
		})
	}
}

// placeFlags say which page of a list is wanted.
type placeFlags struct {
	after string // the cursor
	limit int
}

func (t *tool) addPlaceFlags(cmd *cobra.Command, f *placeFlags, what string) {
	cmd.Flags().IntVar(&f.limit, "limit", console.DefaultPage, fmt.Sprintf("most %s to list, 1 to %d", what, console.MaxPage))
	cmd.Flags().StringVar(&f.after, "after", "", "go on behind this place, as an earlier list named it")
	t.jsonFlag(cmd, jsonArray)
}

func checkLimit(limit int) error {
	if limit < 1 || limit > console.MaxPage {
		return fmt.Errorf("--limit: %d is not between 1 and %d", limit, console.MaxPage)
	}
	return nil
}

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
