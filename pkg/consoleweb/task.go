package consoleweb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// taskView is the data of the view.
type taskView struct {
	Task    console.TaskLife
	Payload string // for people
	Ended   bool
	Said    []saidAnswer // what it waits for, or how it ended; none if that is not known
	Line    []taskMark
	Failed  []console.Happened // attempts, the newest first
	OwnMs   float64            // the call of its own handler
	Steps   []ranStep          // of a done task's last try; none if they are not known
}

// taskMark is a moment of a task on its line.
type taskMark struct {
	lineMoment

	Ms    int64
	Word  string // the key of its word
	Class string
	Low   bool   // its name stands below that of the mark before
	Break string // in percent: where the axis before it is broken; empty: nowhere
}

// draw places what has happened to the task, and what will, on an axis.
func (t *taskView) draw(v *visit) {
	const tries = 6 // and moves at most
	add := func(ms int64, word, class string) {
		c := v.Day(ms)
		t.Line = append(t.Line, taskMark{Ms: ms, Word: word, Class: class, lineMoment: lineMoment{Text: strings.TrimSpace(c.Day + " " + c.Time)}})
	}
	of, state := t.Task, t.Task.State.String()
	add(of.CreatedAtMs, "created", "made")
	for i, failed := range t.Failed {
		if i < tries {
			add(failed.AtMs, "event.failed", "dead")
		}
	}
	for _, line := range t.lately(protocol.EventMoved, tries) {
		if was, said := wasDue(line.Detail); said {
			add(was, "wasdue", "was")
		}
	}
	switch {
	case of.State != task.Pending, of.RunAtMs != of.DueAtMs:
		add(of.DueAtMs, "due", "was")
	default:
		add(of.DueAtMs, "due", state)
	}
	switch {
	case of.FinishedAt != nil:
		add(*of.FinishedAt, "event."+state, state)
	case of.RunAtMs != of.DueAtMs:
		add(of.RunAtMs, "run", state)
	}
	if !t.Ended {
		add(v.now.UnixMilli(), "now", "now")
	}
	slices.SortStableFunc(t.Line, func(a, b taskMark) int { return cmp.Compare(a.Ms, b.Ms) })
	t.place()
}

// place puts the marks along the axis by their moments. Those that would hide each other are pushed apart; where that takes room from a
// longer time, the axis is broken.
func (t *taskView) place() {
	const left, right, room, name, hardly = 1, 99, 7, 14, 2 // percent
	marks, last := t.Line, len(t.Line)-1
	length := float64(max(1, marks[last].Ms-marks[0].Ms))
	at, x := make([]float64, len(marks)), make([]float64, len(marks))
	apart := min(room, (right-left)/float64(max(1, last)))
	for i, m := range marks {
		at[i] = left + (right-left)*float64(m.Ms-marks[0].Ms)/length
		if x[i] = at[i]; i > 0 {
			x[i] = max(x[i], x[i-1]+apart)
		}
	}
	high := -math.MaxFloat64 // the last mark whose name is not low
	for i := range marks {
		x[i] = min(x[i], right-apart*float64(last-i))
		marks[i].X = percent(x[i])
		if i > 0 && at[i]-at[i-1]-(x[i]-x[i-1]) > hardly {
			marks[i].Break = percent((x[i-1] + x[i]) / 2)
		}
		if marks[i].Word == "now" {
			continue // its name stands above
		}
		if marks[i].Low = x[i]-high < name; !marks[i].Low {
			high = x[i]
		}
	}
}

// lately are some lines of the task's history, the newest first.
func (t *taskView) lately(event string, n int) (lines []console.Happened) {
	for _, line := range slices.Backward(t.Task.History) {
		if line.Event == event && len(lines) < n {
			lines = append(lines, line)
		}
	}
	return lines
}

// wasDue is when a task was due before a move, of which the history says by how much and to when it was.
func wasDue(detail string) (ms int64, said bool) {
	by := spanText.FindStringSubmatch(detail)
	to, err := time.Parse(time.RFC3339Nano, utcText.FindString(detail))
	if by == nil || err != nil {
		return 0, false
	}
	d, err := time.ParseDuration(by[2])
	return to.Add(-d).UnixMilli(), err == nil
}

// Earlier are the attempts that failed before the one of the row's error.
func (t *taskView) Earlier() []console.Happened {
	if len(t.Failed) == 0 || t.Task.LastError == "" || t.Task.State != task.Pending && t.Task.State != task.Done {
		return t.Failed
	}
	return t.Failed[1:]
}

// end says how a task has ended.
func (t *taskView) end(v *visit) saidAnswer {
	if t.Task.State == task.Cancelled {
		return saidAnswer{Sentence: v.T("done.never"), Class: "why"}
	}
	at := cmp.Or(t.Task.FinishedAt, &t.Task.UpdatedAtMs)
	lag := *at - max(t.Task.DueAtMs, t.Task.CreatedAtMs)
	said := saidAnswer{Sentence: v.T("done.at", v.Ms(float64(lag)), time.UnixMilli(*at).In(v.zone).Format("15:04:05.000")), Class: "why"}
	if lag > lateMs {
		said.Class = "why warn"
	}
	return said
}

// ranStep is a step of a task's last try, as a part of a bar.
type ranStep struct {
	Key      string // of its word, and its class
	Ms       float64
	X, Width int64
}

// ranWidth is the bar's width; a step that took time has a part of at least minStep.
const (
	ranWidth = 1000
	minStep  = 4
)

func stepsOf(ran *console.Ran) (all []ranStep) {
	if ran == nil {
		return nil
	}
	whole, x := int64(0), int64(0)
	for _, ms := range ran.Steps() {
		whole += ms
	}
	for i, ms := range ran.Steps() {
		s := ranStep{Key: []string{"hinted", "taken", "started", "ended"}[i], Ms: float64(ms), X: x}
		if ms > 0 {
			s.Width = max(minStep, ranWidth*ms/whole)
		}
		x += s.Width
		all = append(all, s)
	}
	return all
}

func readTask(ctx context.Context, v *visit) (any, error) {
	id, err := idOf(v)
	if err != nil {
		return nil, err
	}
	life, err := v.c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &taskView{Task: life, Steps: stepsOf(life.Ran), Ended: life.State == task.Done || life.State == task.Cancelled}
	if life.Ran != nil {
		out.OwnMs = float64(life.Ran.HandlerMs)
	}
	out.Failed = out.lately(task.EventFailed, len(life.History))
	out.draw(v)
	if out.Ended {
		out.Said = []saidAnswer{out.end(v)}
	} else if all := whyLate(ctx, v).value; len(all.Answers) > 0 {
		why, err := all.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		out.Said = v.Answers(why)
	}
	if !v.Hides() {
		out.Payload = indented(life.Payload, life.PayloadText)
	}
	return out, nil
}

// indented returns JSON in lines, and any other text as it is.
func indented(payload json.RawMessage, text string) string {
	var b bytes.Buffer
	if payload == nil || json.Indent(&b, payload, "", "  ") != nil {
		return text
	}
	return b.String()
}
