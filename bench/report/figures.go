package report

import (
	"strings"
)

// Figures are what one part of `bench/run scale` has measured.
type Figures struct {
	Part          string // also the name of its marks in the page
	Circumstances string

	rows [][]string
}

// Add adds a figure with its unit.
func (f *Figures) Add(what string, value float64, unit string) {
	f.Text(what, strings.TrimSpace(number(value)+" "+unit))
}

// Text adds a figure that is no single number.
func (f *Figures) Text(what, value string) { f.rows = append(f.rows, []string{what, value}) }

// Markdown is the table of the figures.
func (f *Figures) Markdown() string {
	return f.Circumstances + "\n\n" + table{[]string{"what", "measured"}, f.rows}.markdown()
}

// Write puts the table between the marks of the part.
func (f *Figures) Write(page string) error { return writePart(page, f.Part, f.Markdown()) }
