package consoleweb

import (
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// taskTable is a list of tasks, for the template of that name.
type taskTable struct {
	*visit

	Tasks []console.Task
	By    time.Duration // by which they are to move
	// OneOwner says that they are all of one owner, whom the page names.
	OneOwner bool

	Picks bool   // rows can be chosen, for the form of a mass change
	found bool   // by a search
	query query  // of the search
	state string // of all tasks that a search can find; empty: any
}

// Table is a list of tasks for the template of that name.
func (v *visit) Table(tasks []console.Task) taskTable { return taskTable{visit: v, Tasks: tasks} }

// Owned is a list of tasks of one owner, whom the page names.
func (v *visit) Owned(tasks []console.Task) taskTable {
	return taskTable{visit: v, Tasks: tasks, OneOwner: true}
}

// TableBy is a list of tasks that are to move by a span of time.
func (v *visit) TableBy(tasks []console.Task, by time.Duration) taskTable {
	return taskTable{visit: v, Tasks: tasks, By: by}
}

// Found is a list of tasks that a search has found.
func (v *visit) Found(s *search) taskTable {
	return taskTable{visit: v, Tasks: s.Page.Tasks, Picks: len(s.Verbs) > 0, found: true, query: s.Query, state: s.State}
}

// Shows reports whether a column says something: not what the query has said, and not nothing in each row.
func (t taskTable) Shows(column string) bool {
	switch column {
	case "state":
		return t.state == ""
	case "kind":
		return !t.query.has("kind")
	case "queue":
		return !t.found || oneQueue(t.Tasks) == ""
	case "failures":
		return slices.ContainsFunc(t.Tasks, func(one console.Task) bool { return one.Attempt > 0 })
	}
	return slices.ContainsFunc(t.Tasks, func(one console.Task) bool { return one.FinishedAt != nil })
}

// Narrower is the address of the search with one clause more; empty if it has the clause, and for a list of another view.
func (t taskTable) Narrower(key, value string) string {
	if !t.found || value == "" || slices.Contains(t.query, clause{key, value}) {
		return ""
	}
	return t.Link("tasks", "q", t.query.With(key, value))
}

// oneQueue is the queue that all of the tasks are in; empty if they are in several.
func oneQueue(tasks []console.Task) string {
	if len(tasks) == 0 || slices.ContainsFunc(tasks, func(one console.Task) bool { return one.Queue != tasks[0].Queue }) {
		return ""
	}
	return tasks[0].Queue
}

// Moved is when a task is due after the move: not before now.
func (t taskTable) Moved(one console.Task) int64 {
	return max(one.DueAtMs+t.By.Milliseconds(), t.now.UnixMilli())
}

// taskRow is a task in a list.
type taskRow struct {
	console.Task

	Due      clock
	End      *clock
	Lateness string // of a task that is done
	Late     bool   // it was
	Waits    bool   // though it is due
}

// clock is a time of the day. Its day stands before it where the reader does not know it.
type clock struct {
	moment

	Day, Time string
}

// Rows are the lines of the list. A day is said once: where it is not that of the line above, and for the first one not today.
func (t taskTable) Rows() []taskRow {
	rows, day := make([]taskRow, len(t.Tasks)), t.now.Format(time.DateOnly)
	for i, one := range t.Tasks {
		r := taskRow{Task: one, Due: t.clock(one.DueAtMs, day), Waits: t.Late(one)}
		day = time.UnixMilli(one.DueAtMs).In(t.zone).Format(time.DateOnly)
		if one.FinishedAt != nil {
			end := t.clock(*one.FinishedAt, day)
			r.End = &end
			if one.State == task.Done {
				lag := *one.FinishedAt - max(one.DueAtMs, one.CreatedAtMs)
				r.Late, r.Lateness = lag > lateMs, t.Ms(float64(lag))
				switch {
				case r.Late:
					r.Lateness = t.T("lateby", r.Lateness)
				case lag >= 0:
					r.Lateness = "+" + r.Lateness
				}
			}
		}
		rows[i] = r
	}
	return rows
}

// clock is a moment beside others of a day.
func (v *visit) clock(ms int64, day string) clock {
	at := time.UnixMilli(ms).In(v.zone)
	c := clock{moment: v.At(ms), Time: at.Format(time.TimeOnly)}
	if its := at.Format(time.DateOnly); its != day {
		c.Day = its
	}
	return c
}

// cutID is an id of which only the end is seen: the beginning is when the id was made, which many ids share. It is copied whole.
type cutID struct{ Unseen, Seen string }

// Cut parts an id.
func (v *visit) Cut(id any) cutID {
	const seen = 8
	text := textOf(id)
	at := max(0, len(text)-seen)
	return cutID{text[:at], text[at:]}
}
