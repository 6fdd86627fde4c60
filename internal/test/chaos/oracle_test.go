package chaos_test

import (
	"fmt"
	"slices"
)

// verdict is every way in which what happened is not what was promised, a text for each case.
type verdict struct {
	calls, tasks, effects int

	lost        []string // an acknowledged change that left no trace, or a due task without its effect
	duplicate   []string // a second effect, or a second start
	early       []string // an effect before the due time
	afterCancel []string // an effect after an acknowledged cancel, or a cancel acknowledged after the effect
	stale       []string // an effect by an older schedule than the last acknowledged one
	phantom     []string // an effect that nobody asked for
	torn        []string // a pet that doesn't fit its journal: half a transaction

	meals map[string]*meal
}

// kinds are the verdict's parts in the order of the report.
func (v *verdict) kinds() []struct {
	name  string
	cases []string
} {
	return []struct {
		name  string
		cases []string
	}{
		{"lost", v.lost},
		{"duplicate", v.duplicate},
		{"early", v.early},
		{"after-cancel", v.afterCancel},
		{"stale", v.stale},
		{"phantom", v.phantom},
		{"torn", v.torn},
	}
}

// settled is how long past its time, in ms, a task is lost that still waits though the world is at rest.
const settled = 1000

// leave tells the oracle what a row does on purpose.
type leave struct {
	deadMayBe bool            // the row makes tasks that must die
	forget    func(call) bool // an acknowledgement that a restored backup takes back
}

// judge holds the journal, the pets and the tasks against each other and against the calls. It must see the world at
// rest: no due task may be under way.
func judge(h history, calls []call, l leave) *verdict {
	v := &verdict{calls: len(calls), meals: map[string]*meal{}}
	v.walk(h, postponements(calls))
	v.ends(h, l)
	v.balance(h)
	v.promised(h, calls, l)
	v.tasks = len(v.meals)
	for _, m := range v.meals {
		if m.ate() {
			v.effects++
		}
	}
	return v
}

func add(to *[]string, format string, args ...any) { *to = append(*to, fmt.Sprintf(format, args...)) }

// moves are the due times given to a task by the operator's tool, which the journal doesn't tell: the last acknowledged,
// 0 if none, and those without an answer.
type moves struct {
	acked int64
	open  []int64
}

func postponements(calls []call) map[string]moves {
	of := map[string]moves{}
	for _, c := range calls {
		if c.op != postponed {
			continue
		}
		m := of[c.task]
		switch {
		case c.acked():
			m.acked, m.open = c.due, nil
		case c.open():
			m.open = append(m.open, c.due)
		}
		of[c.task] = m
	}
	return of
}

// walk follows each task through the journal, whose order is that of the commits of one task.
func (v *verdict) walk(h history, postponed map[string]moves) {
	for _, l := range h.lines {
		m := v.meals[l.task]
		switch {
		case l.event == fed || l.event == "auto_fed":
			if m != nil {
				add(&v.duplicate, "task %s: started twice", l.task)
			}
			v.meals[l.task] = &meal{pet: l.pet, owner: l.owner, hand: l.event == fed, made: l.at, due: l.due, version: l.version}
		case m == nil:
			add(&v.phantom, "task %s: %s without a start", l.task, l.event)
		case l.event == "meal_finished":
			v.finish(m, l, postponed[l.task])
		case m.ate():
			into := &v.stale
			if l.event == cancelled {
				into = &v.afterCancel
			}
			add(into, "task %s: %s was acknowledged after the effect", l.task, l.event)
		case m.over:
			add(&v.phantom, "task %s: %s after its cancel", l.task, l.event)
		case l.event == spedUp:
			m.due, m.version = l.due, l.version
		case l.event == cancelled:
			m.over, m.cancelled = true, true
		}
	}
}

func (v *verdict) finish(m *meal, l line, moved moves) {
	switch {
	case m.cancelled:
		add(&v.afterCancel, "task %s: took effect after its cancel", l.task)
	case m.over:
		add(&v.duplicate, "task %s: took effect again", l.task)
	}
	due := m.due
	if moved.acked != 0 {
		due = moved.acked
	}
	if l.due != due && !slices.Contains(moved.open, l.due) {
		add(&v.stale, "task %s: took effect as due at %d, was moved to %d before", l.task, l.due, due)
	}
	if l.at < l.due {
		add(&v.early, "task %s: early by %d ms", l.task, l.due-l.at)
	}
	m.due, m.at, m.over, m.cancelled, m.version = l.due, l.at, true, false, l.version
}

// ends looks for tasks that the journal started and that neither ended nor still wait.
func (v *verdict) ends(h history, l leave) {
	for id, m := range v.meals {
		r, stands := h.rows[id]
		switch {
		case m.over && stands && r.state == pending:
			add(&v.torn, "task %s: has ended and is pending", id)
		case m.over:
		case !stands:
			add(&v.lost, "task %s: its row is gone", id)
		case r.state == pending && r.run < h.now-settled:
			add(&v.lost, "task %s: due for %d ms without an effect", id, h.now-r.run)
		case r.state == done:
			add(&v.lost, "task %s: done without its effect", id)
		case r.state == revoked:
			add(&v.lost, "task %s: cancelled by nobody", id)
		case r.state == dead && !l.deadMayBe:
			add(&v.lost, "task %s: dead", id)
		}
	}
	for id := range h.rows {
		if v.meals[id] == nil {
			add(&v.phantom, "task %s: a row without a start in the journal", id)
		}
	}
}

// balance compares each pet with its journal: an effect without its line, or a line without its effect, shows here.
func (v *verdict) balance(h history) {
	count := map[string]map[string]int64{}
	for _, l := range h.lines {
		if count[l.pet] == nil {
			count[l.pet] = map[string]int64{}
		}
		count[l.pet][l.event]++
	}
	for id, s := range h.stocks {
		n := count[id]
		want := stock{
			food: cards - n[fed] - n["auto_fed"] + n[cancelled], speedups: cards - n[spedUp],
			autofeeds: cards - n["auto_fed"] - s.armed, armed: s.armed, meals: n["meal_finished"], experience: 10 * n["meal_finished"],
		}
		if s != want {
			add(&v.torn, "pet %s has %+v, by its journal %+v", id, s, want)
		}
	}
}
