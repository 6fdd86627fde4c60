package console

import (
	"context"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const (
	lineTasks       = 500 // of an owner, on the line
	lineWidth       = 1000
	lineRow         = 18 // between two rows of the line
	lineTop         = 26 // above the first row
	linePad         = 12 // beside the points at both ends
	lineSpread      = 14 // two points nearer than this stand in rows of their own
	maxLineRows     = 12
	lineRecurrences = 10 // each takes two small statements
)

// ownerView is the data of the view.
type ownerView struct {
	Owner       string
	Span        string
	Spans       []string
	From        int64 // of the line, in ms
	To          int64
	NowX        int // 0: outside of the line
	Height      int
	Ticks       []LineTick
	Points      []LinePoint
	Cut         bool // the window has more tasks
	Earlier     string
	Later       string
	Tasks       []Task
	Recurrences []RecurrenceLife
	MoreRecur   bool
	Width       int
}

// LineTick is a mark of the line's axis.
type LineTick struct {
	X    int
	Text string
}

// LinePoint is a task on the line.
type LinePoint struct {
	X, Y int
	Task Task
	Free bool // it can be dragged
}

// lineSpans are the lengths of the line, and between two marks.
func lineSpans() []lineSpan {
	const day = 24 * time.Hour
	return []lineSpan{
		{"1h", time.Hour, 10 * time.Minute},
		{"6h", 6 * time.Hour, time.Hour},
		{"1d", day, 4 * time.Hour},
		{"7d", 7 * day, day},
		{"30d", 30 * day, 5 * day},
	}
}

type lineSpan struct {
	name         string
	length, step time.Duration
}

func lineSpanOf(name string) lineSpan {
	for _, s := range lineSpans() {
		if s.name == name {
			return s
		}
	}
	return lineSpans()[2]
}

func readOwner(ctx context.Context, v *visit) (any, error) {
	span := lineSpanOf(v.r.FormValue("span"))
	out := &ownerView{Owner: v.r.FormValue("owner"), Span: span.name, Width: lineWidth}
	for _, s := range lineSpans() {
		out.Spans = append(out.Spans, s.name)
	}
	if out.Owner == "" {
		return out, nil
	}
	if err := task.CheckOwner(out.Owner); err != nil {
		return out, err
	}
	from := v.now.Add(-span.length / 6)
	if text := v.r.FormValue("from"); text != "" {
		at, err := parseBound(text, v.now)
		if err != nil {
			return out, err
		}
		from = at
	}
	to := from.Add(span.length)
	page, err := v.c.List(ctx, Filter{Owner: out.Owner, DueAfter: from, DueBefore: to, Limit: lineTasks})
	if err != nil {
		return out, err
	}
	out.Tasks, out.Cut = page.Tasks, page.Next != ""
	out.draw(v, from, to, span)
	return out, out.recur(ctx, v)
}

// draw places the points and the marks.
func (o *ownerView) draw(v *visit, from, to time.Time, span lineSpan) {
	o.From, o.To = from.UnixMilli(), to.UnixMilli()
	x := func(ms int64) int {
		return linePad + int(float64(ms-o.From)/float64(max(1, o.To-o.From))*(lineWidth-2*linePad))
	}
	var ends []int // of each row, the place of its last point
	for _, t := range o.Tasks {
		at, row := x(t.DueAtMs), 0
		for row < len(ends) && row < maxLineRows-1 && at-ends[row] < lineSpread {
			row++
		}
		if row == len(ends) {
			ends = append(ends, at)
		}
		ends[row] = at
		o.Points = append(o.Points, LinePoint{
			X: at, Y: lineTop + lineRow*row + lineRow/2, Task: t, Free: t.State == task.Pending && v.May(PageMove),
		})
	}
	o.Height = lineTop + lineRow*max(1, len(ends)) + lineRow/2
	for at := nextWall(from, span.step); at.Before(to); at = at.Add(span.step) {
		form := "15:04"
		if span.step >= 24*time.Hour {
			form = "01-02"
		}
		o.Ticks = append(o.Ticks, LineTick{x(at.UnixMilli()), at.In(v.zone).Format(form)})
	}
	if now := v.now.UnixMilli(); now > o.From && now < o.To {
		o.NowX = x(now)
	}
	half := span.length / 2
	o.Earlier = v.Link("owner", "owner", o.Owner, "span", span.name, "from", v.Typed(from.Add(-half).UnixMilli()))
	o.Later = v.Link("owner", "owner", o.Owner, "span", span.name, "from", v.Typed(from.Add(half).UnixMilli()))
}

// nextWall is the first moment after from that is a multiple of step since the day's beginning in from's zone.
func nextWall(from time.Time, step time.Duration) time.Time {
	day := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, from.Location())
	at := day.Add(from.Sub(day).Truncate(step))
	if !at.After(from) {
		at = at.Add(step)
	}
	return at
}

// recur reads the owner's recurrences with their next moments.
func (o *ownerView) recur(ctx context.Context, v *visit) error {
	page, err := v.c.Recurrences(ctx, RecurrenceFilter{Owner: o.Owner, Limit: lineRecurrences})
	if err != nil {
		return err
	}
	o.MoreRecur = page.Next != ""
	for _, r := range page.Recurrences {
		life, err := v.c.Recurrence(ctx, r.Owner, r.Name)
		if err != nil {
			return err
		}
		o.Recurrences = append(o.Recurrences, life)
	}
	return nil
}
