package terminaltest

import (
	"fmt"
	"html"
	"strings"

	"github.com/hinshun/vt10x"
)

// Of the picture, in its own units.
const (
	cellWidth  = 8.4
	cellHeight = 18
	margin     = 12
)

// The colours of a dark terminal.
const (
	background = "#1e1e2e"
	foreground = "#cdd6f4"
)

// palette has the sixteen colours that programs choose by number.
var palette = [16]string{
	"#45475a", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#bac2de",
	"#585b70", "#f38ba8", "#a6e3a1", "#f9e2af", "#89b4fa", "#f5c2e7", "#94e2d5", "#a6adc8",
}

const glyphBold = 1 << 2 // of vt10x's modes, which it doesn't name; it swaps the colours of reversed cells by itself

// draw makes a picture of the screen down to its last line that shows something, each run of equal cells a piece of text.
func (x *Terminal) draw() string {
	var b strings.Builder
	rows := strings.Count(x.text(), "\n") + 1
	width, height := terminalColumns*cellWidth+2*margin, rows*cellHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" `+
		`font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	for row := range rows {
		for column := 0; column < terminalColumns; {
			column += x.drawRun(&b, column, row)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawRun draws the cells that look like the first one, and gives their number.
func (x *Terminal) drawRun(b *strings.Builder, column, row int) int {
	first := x.screen.Cell(column, row)
	var text strings.Builder
	n := 0
	for ; column+n < terminalColumns; n++ {
		cell := x.screen.Cell(column+n, row)
		if cell.FG != first.FG || cell.BG != first.BG || cell.Mode&glyphBold != first.Mode&glyphBold {
			break
		}
		if cell.Char == 0 {
			cell.Char = ' '
		}
		text.WriteRune(cell.Char)
	}
	left, top := margin+float64(column)*cellWidth, margin+row*cellHeight
	fg, bg := colour(first.FG), colour(first.BG)
	if bg != background {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", left, top, float64(n)*cellWidth, cellHeight, bg)
	}
	if strings.TrimSpace(text.String()) == "" {
		return n
	}
	weight := ""
	if first.Mode&glyphBold != 0 {
		weight = ` font-weight="bold"`
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s"%s textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve">%s</text>`+"\n",
		left, top+cellHeight-5, fg, weight, float64(n)*cellWidth, html.EscapeString(text.String()))
	return n
}

func colour(c vt10x.Color) string {
	switch {
	case c == vt10x.DefaultBG:
		return background
	case c.ANSI():
		return palette[c]
	default: // the default foreground, and what no program of ours uses
		return foreground
	}
}
