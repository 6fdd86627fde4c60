package why

import (
	"slices"
	"time"
)

// The states of a task, as rows name them.
const (
	Pending   = "pending"
	Done      = "done"
	Cancelled = "cancelled"
	Died      = "dead"
)

// Task is what is known of one task.
type Task struct {
	ID, Kind, Queue, State string
	Due, Run               time.Time // the promise, and the next try
	Lag                    time.Duration
	Attempt, MaxAttempts   int
	Error                  string // the last one
	Head                   string // the earlier task of its order key for which it waits; empty: none
	Unhandled              bool   // no worker that took it handles its kind
	Paused                 bool   // a pause has put it off to its end
	Limited                bool   // the rate of its owner has put it off to its slot
}

// taskRule is one reason for which a task has not taken effect.
type taskRule struct {
	name    string
	runbook string
	holds   func(f Facts, t Task) (Answer, bool)
}

func taskRules() []taskRule {
	return []taskRule{
		{"task-done", "", Facts.taskDone},
		{"task-cancelled", "", func(_ Facts, t Task) (Answer, bool) { return Answer{Evidence: map[string]any{}}, t.State == Cancelled }},
		{"task-dead", "dead-tasks", func(_ Facts, t Task) (Answer, bool) { return Answer{}, t.State == Died }},
		{"task-held", "processes-away", func(f Facts, t Task) (Answer, bool) { return f.taskRuns(t, true) }},
		{"task-runs", "lag", func(f Facts, t Task) (Answer, bool) { return f.taskRuns(t, false) }},
		{"task-behind", "lag", func(_ Facts, t Task) (Answer, bool) { return Answer{}, t.Head != "" }},
		{"task-paused", "", func(f Facts, t Task) (Answer, bool) { return Answer{}, t.Paused && t.Run.After(f.Now) }},
		{"task-limited", "", func(f Facts, t Task) (Answer, bool) { return Answer{}, t.Limited && t.Run.After(f.Now) }},
		{"task-unknown-kind", "unknown-kind", func(f Facts, t Task) (Answer, bool) { return Answer{}, t.Unhandled && t.Run.After(f.Now) }},
		{"task-retry", "lag", func(f Facts, t Task) (Answer, bool) { return Answer{}, t.Attempt > 0 && t.Run.After(f.Now) }},
		{"task-put-off", "", func(f Facts, t Task) (Answer, bool) { return Answer{}, t.Run.After(f.Now) && !t.Run.Equal(t.Due) }},
		{"task-not-due", "", func(f Facts, t Task) (Answer, bool) { return Answer{}, t.Run.After(f.Now) }},
	}
}

// soon is how late a task is without any reason: hints and looks take as long.
const soon = 2 * time.Second

// OfTask returns why a task has not taken effect, or that it has. What stops its queue or all queues is an answer too: that of Why.
func OfTask(f Facts, t Task) Answer {
	evidence := map[string]any{
		"task": t.ID, "kind": t.Kind, "queue": t.Queue, "attempt": t.Attempt, "max_attempts": t.MaxAttempts, "error": t.Error, "head": t.Head,
		"late_ms": f.sinceMs(t.Due), "next_ms": max(0, t.Run.Sub(f.Now).Milliseconds()), "lag_ms": t.Lag.Milliseconds(),
	}
	of := func(a Answer, rule, runbook string) Answer {
		for name, value := range evidence {
			if _, known := a.Evidence[name]; !known && a.Evidence != nil {
				a.Evidence[name] = value
			}
		}
		if a.Evidence == nil {
			a.Evidence = evidence
		}
		a.Rule, a.Runbook, a.Tasks = rule, runbook, 1
		if t.State == Pending {
			a.LateMs = f.sinceMs(t.Due)
		}
		return a.spoken()
	}
	for _, r := range taskRules() {
		if a, holds := r.holds(f, t); holds {
			return of(a, r.name, r.runbook)
		}
	}
	for _, a := range Why(f) {
		if a.stops(t) {
			return a
		}
	}
	late := Answer{}
	if f.Now.Sub(t.Run) > soon {
		late.variant = "late"
	}
	return of(late, "task-due", "lag")
}

// stops reports whether the answer is about a due task too.
func (a Answer) stops(t Task) bool {
	queue, ofQueue := a.Evidence["queue"]
	kind := a.Evidence["kind"]
	switch a.Rule {
	case "worker-stuck", "unexplained", "dying", wasLate, onTime, "zookeeper-away":
		return false
	case "unknown-kind":
		return queue == t.Queue && kind == t.Kind
	case "no-leader":
		return a.Evidence["leader"] == "event"
	}
	return !ofQueue || queue == t.Queue
}

func (Facts) taskDone(t Task) (Answer, bool) {
	a := Answer{}
	if t.Lag > time.Second {
		a.variant = "late"
	}
	return a, t.State == Done
}

// taskRuns finds the process that has said that it runs the task. A silent one may have ended since.
func (f Facts) taskRuns(t Task, silent bool) (Answer, bool) {
	for _, p := range f.Processes {
		i := slices.IndexFunc(p.Calls, func(s Call) bool { return s.Task == t.ID })
		if i < 0 || p.Silent != silent {
			continue
		}
		s, a := p.Calls[i], Answer{}
		a.Evidence = map[string]any{
			"worker": p.name(), "run_ms": f.sinceMs(s.Since), "limit_ms": s.Limit.Milliseconds(), "silent_ms": f.sinceMs(p.Seen),
		}
		if s.Limit > 0 && f.Now.Sub(s.Since) > s.Limit+callGrace {
			a.variant = "long"
		}
		return a, true
	}
	return Answer{}, false
}
