package report

import (
	"fmt"
	"strings"
)

// Servers is what duetime was measured on several SQL servers in one call.
type Servers struct {
	Circumstances string
	Titles        []string // the servers, by name and version
	Results       []*Results
}

// serverFigures are the rows of the first table.
var serverFigures = []Metric{
	LagP50, LagP99, LagEffect, BurstEffectRate, BurstLargeRate, BurstEmptyRate, Accept8, Accept64, AcceptBulk8, AcceptOwn64, Moved, MovedTogether,
}

// serverLimits are the rows of the second one: duetime's figure, and what its statements alone do on the same server.
var serverLimits = []struct {
	text        string
	ours, limit quantity
	least       float64
}{
	{"burst with effects ÷ the same statements in batches of 100", of(Duetime, BurstEffectRate), of(Raw, RawBatch), .65},
	{"accepting one by one, 64 callers ÷ inserting one row", of(Duetime, Accept64), of(Raw, RawInsert64), 1.5},
	{"moving ÷ compare-and-set of one row", of(Duetime, Moved), of(Raw, RawSwap), .8},
}

// Markdown is the report.
func (s Servers) Markdown() string {
	var b strings.Builder
	b.WriteString(s.Circumstances + "\n")
	head := append([]string{"duetime"}, s.Titles...)
	part(&b, "Figures", "", table{append(head, s.Titles[0]+" ÷ "+s.Titles[len(s.Titles)-1]), s.figures()})
	part(&b, "Against the server's own limits", "", table{append([]string{"duetime"}, append(s.Titles, "target")...), s.limits()})
	for i, r := range s.Results {
		for _, failure := range r.Failed {
			fmt.Fprintf(&b, "\nFailed on %s, so that its figures are missing or incomplete: %s.\n", s.Titles[i], failure)
		}
	}
	return b.String()
}

func (s Servers) figures() (rows [][]string) {
	for _, m := range serverFigures {
		row := []string{m.Work + ": " + header(m)}
		for _, r := range s.Results {
			row = append(row, cell(r.Runs(Duetime, m)))
		}
		first, have := s.Results[0].Median(Duetime, m)
		last, has := s.Results[len(s.Results)-1].Median(Duetime, m)
		if !have || !has {
			continue
		}
		rows = append(rows, append(row, number(first/last)))
	}
	return rows
}

func (s Servers) limits() (rows [][]string) {
	for _, l := range serverLimits {
		row := []string{l.text}
		for _, r := range s.Results {
			v, ok := inTurns(over(l.ours, l.limit))(r)
			if !ok {
				v = 0
			}
			row = append(row, number(v))
		}
		rows = append(rows, append(row, "≥ "+number(l.least)))
	}
	return rows
}

// Write puts the report between its marks of a page whose text is written by hand.
func (s Servers) Write(page string) error { return writePart(page, "servers", s.Markdown()) }
