package consoleweb

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// lagView is the data of the view.
type lagView struct {
	lagRead
	freshness
	Kind, Queue, Span string
	Spans             []string
	Queues            []string
	Early             int64 // ended before their time: a broken promise
	Width, Height     int
	ZeroY             int       // of the line that nothing may cross
	Marks             []lagMark // of the scale
	Lines             []lagLine
	Bars              []lagBar
	Plot              string // the same figures for the script, as JSON
	Goal              string // of the budget, in percent
	Budget            int64  // tasks that may be late
	Spent             float64
	Burn              float64 // how many times as fast as allowed the budget is spent
}

// lagRead is what all viewers share.
type lagRead struct {
	console.LagOver
	Deploys []console.Deploy
}

func readLagOver(ctx context.Context, c *console.Console, q console.LagQuery) (r lagRead, err error) {
	if r.LagOver, err = c.LagOver(ctx, q); err != nil {
		return r, err
	}
	r.Deploys, err = c.Deploys(ctx, q.Span)
	return r, err
}

// lagMark is a height with its name.
type lagMark struct {
	Y    int
	Text string
}

// lagLine is one percentile over time.
type lagLine struct{ Class, Points string }

// lagBar is a bucket of the histogram.
type lagBar struct {
	Text  string
	Tasks int64
	Share float64 // of the fullest bucket, 0 to 100
	Late  bool
}

type lagSpan struct {
	name         string
	length, step time.Duration
}

func lagSpans() []lagSpan {
	return []lagSpan{
		{"15m", 15 * time.Minute, 15 * time.Second},
		{"1h", time.Hour, time.Minute},
		{"6h", 6 * time.Hour, 5 * time.Minute},
		{"1d", 24 * time.Hour, 20 * time.Minute},
	}
}

const (
	lagGoal    = 0.999 // of the tasks end within a second of their time
	lateMs     = 1000
	plotWidth  = 960
	plotHeight = 220
	plotBelow  = 24 // below the zero line: what is early would be there
	maxLagMs   = 1_000_000
)

func readLag(ctx context.Context, v *visit) (any, error) {
	span := lagSpans()[1]
	out := &lagView{
		Kind: strings.TrimSpace(v.r.FormValue("kind")), Queue: v.r.FormValue("queue"), Queues: v.c.QueueNames(),
		Width: plotWidth, Height: plotHeight, ZeroY: plotHeight - plotBelow, Goal: fmt.Sprintf("%g", lagGoal*100),
	}
	for _, s := range lagSpans() {
		out.Spans = append(out.Spans, s.name)
		if s.name == v.r.FormValue("span") {
			span = s
		}
	}
	out.Span = span.name
	for name, text := range map[string]string{"kind": out.Kind, "queue": out.Queue} {
		if len(text) > max(task.MaxKind, task.MaxQueue) { // it would be kept with the reading
			return out, &task.FieldError{Field: name, Problem: "is too long"}
		}
	}
	query, c := console.LagQuery{Span: span.length, Step: span.step, Kind: out.Kind, Queue: out.Queue}, v.site.c
	key := fmt.Sprintf("lag %s %q %q", span.name, out.Kind, out.Queue)
	read := readFor(ctx, v, key, func(ctx context.Context) (lagRead, error) { return readLagOver(ctx, c, query) })
	out.lagRead, out.freshness = read.value, read.about()
	out.sum()
	out.draw()
	return out, nil
}

// sum reads the budget, and what was early.
func (l *lagView) sum() {
	for _, s := range l.Steps {
		l.Early += s.Early
	}
	allowed := (1 - lagGoal) * float64(l.Fired)
	l.Budget = int64(allowed)
	if allowed > 0 {
		l.Burn = float64(l.Late) / allowed
		l.Spent = min(100, 100*l.Burn)
	}
	fullest := int64(1)
	for _, b := range l.Buckets {
		fullest = max(fullest, b.Tasks)
	}
	lower := ""
	for _, b := range l.Buckets {
		text := "≤ " + msText(b.UpToMs)
		if math.IsInf(b.UpToMs, 1) || b.UpToMs >= math.MaxFloat64 {
			text = "> " + lower
		}
		lower = msText(b.UpToMs)
		l.Bars = append(l.Bars, lagBar{text, b.Tasks, 100 * float64(b.Tasks) / float64(fullest), b.UpToMs > lateMs})
	}
}

func msText(ms float64) string {
	if ms >= lateMs {
		return fmt.Sprintf("%g s", ms/lateMs)
	}
	return fmt.Sprintf("%g ms", ms)
}

// lagY is the height of a lag on a logarithmic scale. Zero is a line of its own, and what is early is below it.
func (l *lagView) lagY(ms float64) int {
	if ms < 0 {
		return l.ZeroY + plotBelow - 4
	}
	up := math.Log10(1+min(ms, maxLagMs)) / math.Log10(1+maxLagMs)
	return l.ZeroY - int(up*float64(l.ZeroY-8))
}

// draw makes the lines for browsers without scripts, and the same figures for those with them.
func (l *lagView) draw() {
	for _, ms := range []float64{1, 10, 100, 1000, 10_000, 100_000} {
		l.Marks = append(l.Marks, lagMark{l.lagY(ms), msText(ms)})
	}
	if len(l.Steps) == 0 {
		return
	}
	plot := [][]any{nil, nil, nil, nil, nil}
	points := make([][]string, 4)
	for i, s := range l.Steps {
		plot[0] = append(plot[0], s.AtMs/1000)
		x := i * plotWidth / max(1, len(l.Steps)-1)
		for j, ms := range []float64{s.P50, s.P90, s.P99, s.Max} {
			if s.Fired == 0 {
				plot[j+1] = append(plot[j+1], nil)
				continue
			}
			plot[j+1] = append(plot[j+1], ms)
			points[j] = append(points[j], fmt.Sprintf("%d,%d", x, l.lagY(ms)))
		}
	}
	for j, class := range []string{"p50", "p90", "p99", "pmax"} {
		l.Lines = append(l.Lines, lagLine{class, strings.Join(points[j], " ")})
	}
	text, err := json.Marshal(plot)
	if err == nil {
		l.Plot = string(text)
	}
}
