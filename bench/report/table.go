package report

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown is the whole report.
func (r *Results) Markdown() string {
	var b strings.Builder
	b.WriteString(r.Circumstances)
	b.WriteString("\n\nEach figure is the median of the runs, which stand behind it. Rows without them ran once.\n")
	part(&b, "Targets", "", r.targets())
	part(&b, "duetime against each", "How many times better duetime is: their time or size by ours, our rate by theirs.", r.ratios())
	part(&b, "Against the parts' own limits", "", r.limits())
	for _, s := range sections {
		part(&b, s.title, s.text, r.section(s))
	}
	part(&b, "Systems", "", r.settings())
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	for _, failure := range r.Failed {
		fmt.Fprintf(&b, "\nFailed, so that its figures are missing or incomplete: %s.\n", failure)
	}
	return b.String()
}

// part writes a headed table; without rows, nothing.
func part(b *strings.Builder, title, text string, t table) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", title)
	if text != "" {
		fmt.Fprintf(b, "%s\n\n", text)
	}
	b.WriteString(t.markdown())
}

type table struct {
	head []string
	rows [][]string
}

func (t table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.head)
	b.WriteString(strings.Repeat("|---", len(t.head)) + "|\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// section is the table of one work: the columns that somebody has.
func (r *Results) section(s section) table {
	rows := r.rows(s.work)
	metrics := slices.DeleteFunc(slices.Clone(s.metrics), func(m Metric) bool {
		return !slices.ContainsFunc(rows, func(row string) bool { return len(r.Runs(row, m)) > 0 })
	})
	if s.work == "raw" {
		return r.list(metrics)
	}
	t := table{head: []string{"system"}}
	for _, m := range metrics {
		t.head = append(t.head, header(m))
	}
	for _, row := range rows {
		cells := []string{r.title(row)}
		for _, m := range metrics {
			cells = append(cells, cell(r.Runs(row, m)))
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// list is the table of the raw limits: one row has all metrics.
func (r *Results) list(metrics []Metric) table {
	t := table{head: []string{"part", "limit"}}
	for _, m := range metrics {
		t.rows = append(t.rows, []string{header(m), cell(r.Runs(Raw, m))})
	}
	return t
}

func header(m Metric) string {
	if m.Unit == "" {
		return m.Name
	}
	return m.Name + " (" + m.Unit + ")"
}

// cell shows the median and the runs behind it.
func cell(runs []float64) string {
	switch len(runs) {
	case 0:
		return ""
	case 1:
		return number(runs[0])
	}
	texts := make([]string, len(runs))
	for i, v := range runs {
		texts[i] = number(v)
	}
	return "**" + number(Median(runs)) + "** (" + strings.Join(texts, " · ") + ")"
}

func (r *Results) settings() table {
	t := table{head: []string{"system", "as it was run"}}
	for _, s := range r.Systems {
		if slices.ContainsFunc(r.Figures, func(f Figure) bool { name, _ := cutLevel(f.Row); return name == s.Name }) {
			t.rows = append(t.rows, []string{s.Title, s.Settings})
		}
	}
	return t
}
