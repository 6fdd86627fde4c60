// Package report turns what the benchmark measured into tables, targets and plots. It measures nothing itself.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Results is all that one call of the benchmark measured.
type Results struct {
	Circumstances string   // when, with what and on which machine, in one paragraph
	Systems       []System // in the order of the tables
	Figures       []Figure
	Curves        []Curve
	Notes         []string
	Failed        []string // works of systems that failed: what there is of their figures is incomplete
	Whole         bool     // all works of all systems were asked for
}

// System is one row of the tables.
type System struct {
	Name     string // as in the figures
	Title    string
	Settings string // how it was run, in a sentence
}

// Figure is one metric of one row, once for each run.
type Figure struct {
	Row    string
	Metric Metric
	Runs   []float64
}

// Curve is a line of a plot.
type Curve struct {
	Plot   string
	Row    string
	Points []Point
}

// Point is one of a curve.
type Point struct{ X, Y float64 }

// Add notes the figure of one more run.
func (r *Results) Add(row string, m Metric, value float64) {
	for i := range r.Figures {
		if f := &r.Figures[i]; f.Row == row && f.Metric == m {
			f.Runs = append(f.Runs, value)
			return
		}
	}
	r.Figures = append(r.Figures, Figure{row, m, []float64{value}})
}

// Runs returns the figures of all runs, in their order.
func (r *Results) Runs(row string, m Metric) []float64 {
	for _, f := range r.Figures {
		if f.Row == row && f.Metric == m {
			return f.Runs
		}
	}
	return nil
}

// Median returns the median of the runs; false if there was none.
func (r *Results) Median(row string, m Metric) (float64, bool) {
	runs := r.Runs(row, m)
	return Median(runs), len(runs) > 0
}

// only is what was measured in one run, counted from 0.
func (r *Results) only(run int) *Results {
	one := new(Results)
	for _, f := range r.Figures {
		if run < len(f.Runs) {
			one.Add(f.Row, f.Metric, f.Runs[run])
		}
	}
	return one
}

// Note adds a remark that is printed once below the tables.
func (r *Results) Note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(r.Notes, note) {
		r.Notes = append(r.Notes, note)
	}
}

// rows lists the rows that have a figure of the work: systems in their order, each followed by what belongs to it, then
// the others.
func (r *Results) rows(work string) []string {
	var rows []string
	for _, f := range r.Figures {
		if f.Metric.Work == work && !slices.Contains(rows, f.Row) {
			rows = append(rows, f.Row)
		}
	}
	slices.SortStableFunc(rows, func(a, b string) int { return r.place(a) - r.place(b) })
	return rows
}

// place is where a row stands among the systems.
func (r *Results) place(row string) int {
	name, _ := cutLevel(row)
	if i := slices.IndexFunc(r.Systems, func(s System) bool { return s.Name == name }); i >= 0 {
		return i
	}
	return len(r.Systems)
}

// title is what a row is called.
func (r *Results) title(row string) string {
	name, level := cutLevel(row)
	if i := r.place(row); i < len(r.Systems) {
		name = r.Systems[i].Title
	}
	return name + level
}

// Worst is the largest of the runs; false if there was none.
func (r *Results) Worst(row string, m Metric) (float64, bool) {
	runs := r.Runs(row, m)
	if len(runs) == 0 {
		return 0, false
	}
	return slices.Max(runs), true
}

// Load reads what Save wrote.
func Load(path string) (*Results, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the caller's own
	if err != nil {
		return nil, fmt.Errorf("load the results: %w", err)
	}
	r := new(Results)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("load the results: %w", err)
	}
	return r, nil
}

// Save writes all figures as JSON.
func (r *Results) Save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("save the results: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("save the results: %w", err)
	}
	return nil
}
