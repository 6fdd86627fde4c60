package consoleweb

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

const (
	lineTasks       = 500 // of an owner, on the line
	lineRow         = 18  // between two rows of the line
	lineTop         = 18  // above the first lane, for the time of now
	lineName        = 22  // of a lane's name, above its first row
	lineFoot        = 20  // below the last lane, for the times
	lineSpread      = 4   // percent of the width, on a phone that of a point; points nearer than this stand in rows of their own
	maxLineRows     = 12  // of all lanes; each has one, and so there are as many lanes at most
	lineRecurrences = 10  // each takes two small statements
)

// ownerView is the data of the view.
type ownerView struct {
	Owner       string
	Blocked     *console.Block    // the owner's block
	Blocks      console.BlockPage // of all owners, while none is named
	TaskID      string            // of a task, where the owner's name is its id: somebody looks for the task
	Typed       string            // where the line begins
	Span        string
	Spans       []string
	From        int64 // of the line, in ms
	To          int64
	NowX        string // in percent; empty: outside of the line
	Height      int
	Ticks       []lineMoment
	Lanes       []lineLane
	Points      []linePoint
	Cut         bool // the window has more tasks
	Earlier     string
	Later       string
	Tasks       []console.Task
	Recurrences []console.RecurrenceLife
	MoreRecur   bool
}

// lineLane is where the tasks of a kind stand on the line.
type lineLane struct {
	Y    int    // of its name
	Kind string // empty: all that have no lane of their own
}

// linePoint is a task on the line.
type linePoint struct {
	X    string // in percent
	Y    int
	Task console.Task
	Free bool // it can be dragged
}

const wholeDay = 24 * time.Hour // but for those on which a zone's clock is put forward or back

// lineSpans are the lengths of the line, and between two marks.
func lineSpans() []lineSpan {
	return []lineSpan{
		{"1h", time.Hour, 10 * time.Minute},
		{"6h", 6 * time.Hour, time.Hour},
		{"1d", wholeDay, 4 * time.Hour},
		{"7d", 7 * wholeDay, wholeDay},
		{"30d", 30 * wholeDay, 5 * wholeDay},
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
	out := &ownerView{Owner: v.r.FormValue("owner"), Typed: strings.TrimSpace(v.r.FormValue("from")), Span: span.name}
	for _, s := range lineSpans() {
		out.Spans = append(out.Spans, s.name)
	}
	if out.Owner == "" {
		var err error
		out.Blocks, err = v.c.BlockedOwners(ctx, "", console.DefaultPage)
		return out, err
	}
	if err := task.CheckOwner(out.Owner); err != nil {
		return out, err
	}
	from := v.now.Add(-span.length / 6)
	if out.Typed != "" {
		at, err := parseBound(out.Typed, v.now)
		if err != nil {
			return out, err
		}
		from = at
	}
	to := from.Add(span.length)
	page, err := v.c.List(ctx, console.Filter{Owner: out.Owner, DueAfter: from, DueBefore: to, Limit: lineTasks})
	if err != nil {
		return out, err
	}
	out.Tasks, out.Cut = page.Tasks, page.Next != ""
	block, blocked, err := v.c.BlockedOwner(ctx, out.Owner)
	if err != nil {
		return out, err
	}
	if blocked {
		out.Blocked = &block
	}
	out.draw(v, from, to, span)
	if id, err := task.ParseID(out.Owner); err == nil {
		rows, err := v.c.Rows(ctx, []task.ID{id})
		if err != nil {
			return out, err
		}
		if len(rows) > 0 {
			out.TaskID = id.String()
		}
	}
	if v.r.FormValue("part") == "live" { // it shows the line and the tasks
		return out, nil
	}
	return out, out.recur(ctx, v)
}

// draw places the points and the marks, along the line in percent of its width.
func (o *ownerView) draw(v *visit, from, to time.Time, span lineSpan) {
	o.From, o.To = from.UnixMilli(), to.UnixMilli()
	x := func(ms int64) float64 { return float64(ms-o.From) / float64(max(1, o.To-o.From)) * 100 }
	o.lanes(v, x)
	for at := range walls(from.In(v.zone), span.step) {
		if !at.Before(to) {
			break
		}
		form := "15:04"
		if span.step >= wholeDay {
			form = "01-02"
		}
		o.Ticks = append(o.Ticks, lineMoment{X: percent(x(at.UnixMilli())), Text: at.Format(form)})
	}
	if now := v.now.UnixMilli(); now > o.From && now < o.To {
		o.NowX = percent(x(now))
	}
	half := span.length / 2
	o.Earlier = v.Link("owner", "owner", o.Owner, "span", span.name, "from", v.Typed(from.Add(-half).UnixMilli()))
	o.Later = v.Link("owner", "owner", o.Owner, "span", span.name, "from", v.Typed(from.Add(half).UnixMilli()))
}

// lanes places the points, those of each kind in rows of their own. Of too many kinds the last ones share a lane.
func (o *ownerView) lanes(v *visit, x func(ms int64) float64) {
	kinds := map[string]bool{}
	for _, t := range o.Tasks {
		kinds[t.Kind] = true
	}
	names := slices.Sorted(maps.Keys(kinds))
	lanes := make([][]console.Task, min(len(names), maxLineRows))
	for _, t := range o.Tasks {
		nth, _ := slices.BinarySearch(names, t.Kind)
		nth = min(nth, maxLineRows-1)
		lanes[nth] = append(lanes[nth], t)
	}
	if len(names) > maxLineRows {
		names[maxLineRows-1] = ""
	}
	y, all, needs := lineTop, 0, make([]int, len(lanes))
	for nth, tasks := range lanes {
		_, needs[nth] = rowsOf(tasks, x, maxLineRows)
		all += needs[nth]
	}
	for ; all > maxLineRows; all-- { // what a lane doesn't need is another's
		needs[slices.Index(needs, slices.Max(needs))]--
	}
	for nth, tasks := range lanes {
		y += lineName
		o.Lanes = append(o.Lanes, lineLane{y, names[nth]})
		rows, n := rowsOf(tasks, x, needs[nth])
		for i, t := range tasks {
			o.Points = append(o.Points, linePoint{
				X: percent(x(t.DueAtMs)), Y: y + lineRow*rows[i] + lineRow/2 + 2, Task: t, Free: t.State == task.Pending && v.May(VerbMove),
			})
		}
		y += lineRow * n
	}
	o.Height = max(y, lineTop+lineName+lineRow) + lineRow/2 + lineFoot
}

// rowsOf puts the points of a lane into rows, so that those of a row stand apart, as far as there may be so many rows.
func rowsOf(tasks []console.Task, x func(ms int64) float64, limit int) (rows []int, n int) {
	var ends []float64 // of each row, the place of its last point
	for _, t := range tasks {
		at := x(t.DueAtMs)
		row := slices.IndexFunc(ends, func(end float64) bool { return at-end >= lineSpread })
		if row < 0 && len(ends) < limit {
			row, ends = len(ends), append(ends, at)
		} else if row < 0 {
			row = slices.Index(ends, slices.Min(ends))
		}
		ends[row], rows = at, append(rows, row)
	}
	return rows, len(ends)
}

// walls yields the moments after from that are multiples of step since the beginning of from's day, in its zone: every few hours,
// or the beginning of every few days, which may have 23 or 25 hours.
func walls(from time.Time, step time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		began := dayStart(from, 0)
		for n := 1; ; n++ {
			at := began.Add(time.Duration(n) * step)
			if step >= wholeDay {
				at = dayStart(from, n*int(step/wholeDay))
			}
			if at.After(from) && !yield(at) {
				return
			}
		}
	}
}

// dayStart is when the day begins that is some days after at's: at midnight, or later if the clock is put forward at midnight.
func dayStart(at time.Time, days int) time.Time {
	y, m, d := at.Date()
	noon, began := time.Date(y, m, d+days, 12, 0, 0, 0, at.Location()), time.Date(y, m, d+days, 0, 0, 0, 0, at.Location())
	if began.Day() != noon.Day() {
		return began.Add(time.Hour)
	}
	return began
}

// recur reads the owner's recurrences with their next moments.
func (o *ownerView) recur(ctx context.Context, v *visit) error {
	page, err := v.c.Recurrences(ctx, console.RecurrenceFilter{Owner: o.Owner, Limit: lineRecurrences})
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
