package consoleweb

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/console"
)

// aheadView is the data of the view.
type aheadView struct {
	console.Ahead
	freshness
	Span, By string
	Spans    []string
	Total    int64
	Highest  int64 // tasks of the fullest step
	Bars     []aheadBar
	Width    int
	Height   int
	LineY    int // of the line that says what the workers do in a step; 0: none is drawn
	Heads    []aheadHead
	Rows     []heatRow
	Busy     []busyStep
	Hidden   int // groups that have no row
	PerStep  float64
	Capacity string // what workers were measured to do in a second
}

// aheadBar is one step of the strip.
type aheadBar struct {
	X, Y, W, H int
	AtMs       int64
	Tasks      int64
	Over       bool // the workers need longer than the step
	Link       string
}

// aheadHead is a column of the heat map.
type aheadHead struct {
	Text string // empty for the columns between two marks
	AtMs int64
}

// heatRow is one kind or queue of the heat map.
type heatRow struct {
	Name  string
	Tasks int64
	Cells []heatCell
}

// heatCell is one step of a row. Heat is 0 for nothing, up to 9.
type heatCell struct {
	Tasks int64
	Heat  int
	AtMs  int64
	Link  string
}

// busyStep is one of the fullest steps.
type busyStep struct {
	AtMs  int64
	Tasks int64
	Work  string // how long workers need; empty: unknown
	Link  string
}

// aheadSpan is how far ahead the view looks, and in which steps.
type aheadSpan struct {
	name  string
	step  time.Duration
	steps int
}

func aheadSpans() []aheadSpan {
	return []aheadSpan{{"1h", time.Minute, 60}, {"6h", 10 * time.Minute, 36}, {"1d", 30 * time.Minute, 48}}
}

const (
	stripWidth  = 960
	stripHeight = 160
	maxHeatRows = 20
	hottest     = 9
	marks       = 6 // named columns of the heat map
	busySteps   = 3
)

func readAhead(ctx context.Context, v *visit) (any, error) {
	span, by := aheadSpans()[0], "kind"
	out := &aheadView{Width: stripWidth, Height: stripHeight}
	for _, s := range aheadSpans() {
		out.Spans = append(out.Spans, s.name)
		if s.name == v.r.FormValue("span") {
			span = s
		}
	}
	if v.r.FormValue("by") == "queue" {
		by = "queue"
	}
	out.Span, out.By = span.name, by
	query, c := console.AheadQuery{Step: span.step, Steps: span.steps, By: by}, v.site.c
	read := readFor(ctx, v, "ahead "+span.name+by, func(ctx context.Context) (console.Ahead, error) { return c.Ahead(ctx, query) })
	out.Ahead, out.freshness = read.value, read.about()
	out.strip(v)
	out.heat(v)
	return out, nil
}

// list is the address of the tasks whose next attempt is in a step.
func (a *aheadView) list(v *visit, atMs int64, pairs ...any) string {
	return v.Link("search", append(pairs, "state", "pending", "after", v.Typed(atMs), "before", v.Typed(atMs+a.StepMs), "bounds", byRun)...)
}

// strip draws a bar for each step, and the line of what the workers do in one.
func (a *aheadView) strip(v *visit) {
	for _, s := range a.Steps {
		a.Total += s.Tasks
		a.Highest = max(a.Highest, s.Tasks)
	}
	a.Capacity = v.between(v.Short(int64(math.Round(a.CapacityLow))), v.Short(int64(math.Round(a.CapacityHigh))))
	a.PerStep = a.CapacityLow * float64(a.StepMs) / 1000
	top := float64(max(1, a.Highest))
	if a.PerStep > 0 && a.PerStep < 20*top { // else the bars would be too low to be seen
		top = max(top, a.PerStep)
		a.LineY = int(stripHeight - a.PerStep/top*(stripHeight-10))
	}
	w := stripWidth / max(1, len(a.Steps))
	for i, s := range a.Steps {
		h := int(math.Ceil(float64(s.Tasks) / top * (stripHeight - 10)))
		a.Bars = append(a.Bars, aheadBar{
			X: i * w, Y: stripHeight - h, W: max(1, w-2), H: h, AtMs: s.AtMs, Tasks: s.Tasks,
			Over: a.PerStep > 0 && float64(s.Tasks) > a.PerStep, Link: a.list(v, s.AtMs),
		})
	}
	steps := slices.Clone(a.Steps)
	slices.SortStableFunc(steps, func(x, y console.AheadStep) int { return cmp.Compare(y.Tasks, x.Tasks) })
	for _, s := range steps[:min(busySteps, len(steps))] {
		if s.Tasks == 0 {
			break
		}
		a.Busy = append(a.Busy, busyStep{AtMs: s.AtMs, Tasks: s.Tasks, Work: a.work(v, s.Tasks), Link: a.list(v, s.AtMs)})
	}
}

// work is how long workers need for some tasks; empty if that is not known.
func (a *aheadView) work(v *visit, tasks int64) string {
	if a.CapacityLow <= 0 {
		return ""
	}
	return v.between(v.Seconds(float64(tasks)/a.CapacityHigh), v.Seconds(float64(tasks)/a.CapacityLow))
}

// between is a range.
func (v *visit) between(low, high string) string {
	if low == high {
		return low
	}
	return v.T("between", low, high)
}

// StepTasks is what the workers do in one step.
func (a *aheadView) StepTasks() int64 { return int64(a.PerStep) }

// heat fills the map: a row for each of the largest groups.
func (a *aheadView) heat(v *visit) {
	totals, highest := map[string]int64{}, int64(1)
	for _, s := range a.Steps {
		for name, n := range s.Groups {
			totals[name] += n
			highest = max(highest, n)
		}
	}
	names := slices.SortedFunc(maps.Keys(totals), func(x, y string) int {
		return cmp.Or(cmp.Compare(totals[y], totals[x]), cmp.Compare(x, y))
	})
	a.Hidden = max(0, len(names)-maxHeatRows)
	for _, name := range names[:len(names)-a.Hidden] {
		row := heatRow{Name: name, Tasks: totals[name]}
		for _, s := range a.Steps {
			n := s.Groups[name]
			row.Cells = append(row.Cells, heatCell{n, heatOf(n, highest), s.AtMs, a.list(v, s.AtMs, a.By, name)})
		}
		a.Rows = append(a.Rows, row)
	}
	every := max(1, len(a.Steps)/marks)
	for i, s := range a.Steps {
		head := aheadHead{AtMs: s.AtMs}
		if i%every == 0 {
			head.Text = v.Clock(s.AtMs)
		}
		a.Heads = append(a.Heads, head)
	}
}

// heatOf is the logarithm of n, so that a cell with a hundredth of the highest can be seen.
func heatOf(n, highest int64) int {
	if n <= 0 {
		return 0
	}
	return 1 + int(math.Round(math.Log1p(float64(n))/math.Log1p(float64(highest))*(hottest-1)))
}

// Short is a number in a few letters: 140k.
func (v *visit) Short(n int64) string {
	switch {
	case n >= 10_000_000:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	case n >= 10_000:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return strconv.FormatInt(n, 10)
}
