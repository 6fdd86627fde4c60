package consoleweb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// nowView is the data of the view: what was and what will be, on one axis that now parts.
type nowView struct {
	nowQuery
	nowRead
	freshness
	Spans      []string
	Why        console.Explanation
	Said       []saidAnswer // the first of its answers
	Unsaid     int          // how many others there are
	Components []component
	Line       nowLine
	Rows       []nowRow
	Hidden     int   // groups that have no row
	Due        int64 // in the time that is shown
	Early      int64 // ended before their time: a broken promise

	Capacity      string // what workers were measured to do in a second
	CapacityKnown bool
	StepMs        int64
}

// nowQuery is what the view is about.
type nowQuery struct {
	Span string
	By   string // how tasks are grouped
	Only string // the group that is shown; empty: all

	length, step, tick time.Duration // of one side, of a bar, and between two names of the axis
}

// nowRead is what all viewers share.
type nowRead struct {
	frameRead
	FrameErr error // why there is no frame
	Lag      console.LagOver
	Ahead    console.Ahead
	Deploys  []console.Deploy
}

// nowRow is one kind or queue.
type nowRow struct {
	Name      string
	Late      int64
	Lag       console.LagOver
	Slow      bool // the p99 of its lag is late
	Due       int64
	PeakAt    int64 // of its fullest step
	Peak      int64
	HasWorker bool // as far as is known
	Strip     strip

	List, LateList, PeakList, Picture string // addresses
}

const (
	maxNowRows = 20
	maxAnswers = 4
	lateMs     = 1000 // a lag from which a task is late
)

func nowSpans() []nowQuery {
	return []nowQuery{
		{Span: "15m", length: 15 * time.Minute, step: 15 * time.Second, tick: 5 * time.Minute},
		{Span: "1h", length: time.Hour, step: time.Minute, tick: 15 * time.Minute},
		{Span: "6h", length: 6 * time.Hour, step: 10 * time.Minute, tick: 2 * time.Hour},
		{Span: "1d", length: wholeDay, step: 30 * time.Minute, tick: 6 * time.Hour},
	}
}

// nowQueryOf reads the query: a kind or a queue alone, or all by one of these.
func nowQueryOf(v *visit) (nowQuery, error) {
	q := nowSpans()[1]
	for _, s := range nowSpans() {
		if s.Span == v.r.FormValue("span") {
			q = s
		}
	}
	q.By = console.ByKind
	if v.r.FormValue("by") == console.ByQueue || v.r.FormValue("queue") != "" {
		q.By = console.ByQueue
	}
	q.Only = strings.TrimSpace(v.r.FormValue(q.By))
	if len(q.Only) > max(task.MaxKind, task.MaxQueue) { // it would be kept with the reading
		return q, &task.FieldError{Field: q.By, Problem: "is too long"}
	}
	return q, nil
}

func readNow(ctx context.Context, v *visit) (any, error) {
	out := &nowView{}
	var err error
	if out.nowQuery, err = nowQueryOf(v); err != nil {
		return out, err
	}
	for _, s := range nowSpans() {
		out.Spans = append(out.Spans, s.Span)
	}
	ctx, cancel := context.WithTimeout(ctx, livePatience) // for both readings
	defer cancel()
	q, c := out.nowQuery, v.site.c
	key := fmt.Sprintf("now %s %s %q", q.Span, q.By, q.Only)
	var why reading[console.Explanation]
	var waits sync.WaitGroup // a viewer waits for both at once
	waits.Go(func() { why = whyLate(ctx, v) })
	read := readFor(ctx, v, key, func(ctx context.Context) (nowRead, error) { return q.read(ctx, c) })
	waits.Wait()
	out.nowRead, out.freshness, out.Why = read.value, read.about(), why.value
	out.Said = v.Answers(out.Why)
	out.Unsaid = max(0, len(out.Said)-maxAnswers)
	out.Said = out.Said[:len(out.Said)-out.Unsaid]
	out.Ready, out.Err = out.Ready && (len(why.value.Answers) > 0 || why.err != nil), cmp.Or(out.Err, out.FrameErr, why.err)
	if out.Ready {
		out.fill(v)
	}
	if n := out.States["dead"]; out.FrameErr == nil {
		v.site.dead.Store(&deadCount{v.Counted(n, out.MaxState), n, out.AtMs})
	}
	return out, nil
}

// read reads all that the view shows, so that its figures are of one time. The frame comes last: without it there is the rest
// to show.
func (q nowQuery) read(ctx context.Context, c *console.Console) (out nowRead, err error) {
	if out.Deploys, err = c.Deploys(ctx, q.length); err != nil {
		return out, err
	}
	lag := console.LagQuery{Span: q.length, Step: q.step, By: q.By}
	if q.By == console.ByQueue {
		lag.Queue = q.Only
	} else {
		lag.Kind = q.Only
	}
	if out.Lag, err = c.LagOver(ctx, lag); err != nil {
		return out, err
	}
	out.Ahead, err = c.Ahead(ctx, console.AheadQuery{Step: q.step, Steps: int(q.length/q.step) + 1, By: q.By})
	if err != nil {
		return out, err
	}
	out.frameRead, out.FrameErr = readFrame(ctx, c)
	return out, nil
}

// fill makes what the view shows of what was read.
func (n *nowView) fill(v *visit) {
	for _, s := range n.Lag.Steps {
		n.Early += s.Early
	}
	for _, s := range n.Ahead.Steps {
		n.Due += n.due(s)
	}
	n.StepMs, n.CapacityKnown = n.step.Milliseconds(), n.Ahead.CapacityHigh > 0
	n.Capacity = v.between(v.Short(rounded(n.Ahead.CapacityLow)), v.Short(rounded(n.Ahead.CapacityHigh)))
	n.Components = n.components(v)
	n.Line = n.draw(v)
	n.list(v)
}

// due is how many of the tasks of a step the view is about.
func (n *nowView) due(s console.AheadStep) int64 {
	if n.Only != "" {
		return s.Groups[n.Only]
	}
	return s.Tasks
}

// has is a number of the tasks that the view is about: of one group's it may be an estimate.
func (n *nowView) has(v *visit, tasks int64) string {
	return v.About(tasks, n.Only != "" && n.Ahead.Sampled)
}

// steps is the address of the tasks whose next attempt is in a time.
func (n *nowView) steps(v *visit, fromMs, toMs int64, name string) string {
	return v.Link("tasks", n.By, name, "state", "pending", "after", v.Typed(fromMs), "before", v.Typed(toMs), "bounds", byRun)
}

// list fills the rows: those that are late first, then those with most tasks.
func (n *nowView) list(v *visit) {
	rows := map[string]*nowRow{}
	row := func(name string) *nowRow {
		if rows[name] == nil {
			rows[name] = &nowRow{Name: name}
		}
		return rows[name]
	}
	fullest := int64(1) // step of a row
	for name, over := range n.Lag.Groups {
		r := row(name)
		for _, s := range over.Steps {
			fullest = max(fullest, s.Fired)
		}
		r.Lag, r.Slow = over, over.P99 > lateMs
	}
	for name, late := range n.Ahead.Late {
		row(name).Late = late.Tasks
	}
	for _, s := range n.Ahead.Steps {
		for name, tasks := range s.Groups {
			r := row(name)
			fullest = max(fullest, tasks)
			if r.Due += tasks; tasks > r.Peak {
				r.Peak, r.PeakAt = tasks, s.AtMs
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
		x, y := rows[a], rows[b]
		return cmp.Or(cmp.Compare(y.Late, x.Late), cmp.Compare(y.Due+y.Lag.Fired, x.Due+x.Lag.Fired), cmp.Compare(a, b))
	})
	if n.Only != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name != n.Only })
	}
	n.Hidden = max(0, len(names)-maxNowRows)
	for _, name := range names[:len(names)-n.Hidden] {
		r := rows[name]
		r.Strip, r.HasWorker = n.strip(name, fullest), n.hasWorker(name)
		r.List = v.Link("tasks", n.By, name, "state", "pending")
		r.LateList = v.Link("tasks", n.By, name, "state", "pending", "before", "now")
		r.PeakList = n.steps(v, r.PeakAt, r.PeakAt+n.Ahead.StepMs, name)
		r.Picture = v.Link("now", "span", n.Span, n.By, name)
		n.Rows = append(n.Rows, *r)
	}
}

// hasWorker reports whether a living worker takes the tasks of a kind or queue, or some were done lately. Where no worker reports itself, all have one.
func (n *nowView) hasWorker(name string) bool {
	if strings.HasPrefix(name, protocol.WitnessQueue) { // its kinds are named after it; the daemon runs them, and reports no queues
		return true
	}
	const lately = 15 * time.Minute // as for the verdict
	for _, s := range n.Lag.Groups[name].Steps {
		if s.Fired > 0 && s.AtMs+n.step.Milliseconds() > n.AtMs-lately.Milliseconds() {
			return true
		}
	}
	reported := false
	for _, p := range n.Processes {
		takes := p.Queues
		if reported = reported || len(takes) > 0; n.By == console.ByKind {
			takes = p.Kinds
		}
		if p.State != console.ProcessSilent && (slices.Contains(takes, name) || len(p.Queues) > 0 && len(takes) == 0) {
			return true
		}
	}
	return !reported
}

// work is how long workers need for some tasks; empty if that is not known.
func (n *nowView) work(v *visit, tasks int64) string {
	if n.Ahead.CapacityLow <= 0 {
		return ""
	}
	return v.between(v.Ms(1000*float64(tasks)/n.Ahead.CapacityHigh), v.Ms(1000*float64(tasks)/n.Ahead.CapacityLow))
}

// between is a range.
func (v *visit) between(low, high string) string {
	if low == high {
		return low
	}
	return v.T("between", low, high)
}

// Short is a number in a few letters: 140k.
func (v *visit) Short(n int64) string {
	switch {
	case n >= 10_000_000:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	case n >= 10_000, n >= 1000 && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return v.N(n)
}
