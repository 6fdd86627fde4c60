package why

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// rule is one reason for which tasks may be late.
type rule struct {
	name    string
	runbook string
	holds   func(f Facts) []Answer
}

// The names that other rules and the pages ask for.
const (
	mysqlAway = "mysql-away"
	wasLate   = "was-late"
	onTime    = "on-time"
)

const (
	slower      = 3                     // times the handler's own time before: then it is slow
	slowHandler = 20 * time.Millisecond // a faster one makes nobody late
	callGrace   = time.Second           // after its limit a handler's context has ended, unless it ignores that
	takenOver   = time.Minute           // after its last report others have taken over what a worker held
	endsWithin  = 10 * time.Second      // workers that have ended no task for so long end none
	deadLately  = time.Hour             // older deaths are known
	goodPart    = 100                   // one late task of so many is worth a word
	standsIn    = 5 * time.Second       // looks in MySQL stand in for Kafka, Redis and ZooKeeper: tasks are late, and not by so much
)

// rules are in the order in which their answers count: what stops most tasks comes first, and a cause comes before what it causes.
func rules() []rule {
	return []rule{
		{mysqlAway, "mysql-lost", Facts.mysqlAway},
		{"no-worker", "processes-away", Facts.noWorker},
		{"worker-silent", "processes-away", Facts.workerSilent},
		{"worker-stuck", "processes-away", Facts.workerStuck},
		{"paused", "lag", Facts.paused},
		{"limited", "lag", Facts.limited},
		{"slow-handler", "lag", Facts.slowHandler},
		{"behind", "lag", Facts.behind},
		{"kafka-away", "kafka-lost", func(f Facts) []Answer { return f.away(Kafka) }},
		{"redis-away", "redis-lost", func(f Facts) []Answer { return f.away(Redis) }},
		{"zookeeper-away", "zookeeper-lost", func(f Facts) []Answer { return f.away(ZooKeeper) }},
		{"no-leader", "no-leader", Facts.noLeader},
		{"degraded", "degraded", Facts.degraded},
		{"unknown-kind", "unknown-kind", Facts.unknownKind},
		{"unexplained", "lag", Facts.unexplained},
		{"dying", "dead-tasks", Facts.dying},
		{wasLate, "lag", Facts.wasLate},
		{onTime, "", func(f Facts) []Answer { return []Answer{f.fired()} }},
	}
}

func (f Facts) mysqlAway() []Answer { return f.away(MySQL) }

// away says that a server does not answer, and how many tasks are late.
func (f Facts) away(server string) []Answer {
	problem, away := f.Away[server]
	if !away {
		return nil
	}
	var all Waiting
	for _, q := range f.Queues {
		if q.Paused.IsZero() {
			all = add(all, f.waiting(q.Name))
		}
	}
	return []Answer{f.size(all, map[string]any{"server": server, "error": problem})}
}

func add(a, b Waiting) Waiting {
	a.Due, a.Late, a.Oldest = a.Due+b.Due, a.Late+b.Late, earlier(a.Oldest, b.Oldest)
	return a
}

// eachLate asks about the queues with late tasks that are not paused.
func (f Facts) eachLate(ask func(q Queue, w Waiting) (Answer, bool)) (all []Answer) {
	for _, q := range f.Queues {
		w := f.waiting(q.Name)
		if w.Late == 0 || !q.Paused.IsZero() {
			continue
		}
		if a, holds := ask(q, w); holds {
			all = append(all, a)
		}
	}
	return all
}

func (f Facts) noWorker() []Answer {
	if f.lacks(PartProcesses) {
		return nil
	}
	late := f.eachLate(func(q Queue, w Waiting) (Answer, bool) {
		living, silent := f.workers(q.Name)
		a := f.size(w, map[string]any{"queue": q.Name, "kind": w.Kind})
		if len(silent) > 0 {
			a.variant, a.Evidence["worker"], a.Evidence["silent_ms"] = "silent", silent[0].name(), f.sinceMs(silent[0].Seen)
		}
		// Workers that may not write their rows are not listed, and end tasks.
		return a, len(living) == 0 && (len(silent) > 0 || !f.ends(q))
	})
	return append(late, f.noWorkerAhead()...)
}

// noWorkerAhead says it before tasks are late: where workers report themselves, and none of them has run the queue lately.
func (f Facts) noWorkerAhead() (all []Answer) {
	if f.lacks(PartFired) || !slices.ContainsFunc(f.Processes, func(p Process) bool { return len(p.Queues) > 0 }) {
		return nil
	}
	for _, q := range f.Queues {
		w := f.waiting(q.Name)
		living, silent := f.workers(q.Name)
		if w.Ahead > 0 && w.Late == 0 && q.Paused.IsZero() && len(living) == 0 && (len(silent) > 0 || q.Fired == 0) {
			all = append(all, f.ahead(w, map[string]any{"queue": q.Name}))
		}
	}
	return all
}

// ahead is an answer about tasks that are not due yet.
func (f Facts) ahead(w Waiting, evidence map[string]any) Answer {
	evidence["tasks"], evidence["next_ms"], evidence["span_ms"] = w.Ahead, w.Next.Sub(f.Now).Milliseconds(), AheadSpan.Milliseconds()
	return Answer{variant: "ahead", Evidence: evidence}
}

// ends reports whether workers end tasks of the queue now.
func (f Facts) ends(q Queue) bool { return !q.LastEnd.IsZero() && f.Now.Sub(q.LastEnd) < endsWithin }

// workerSilent holds where tasks are late that the worker may hold, or has held: one that crashed and was replaced is silent too. Where a
// queue has reached its limit, the others may not take over.
func (f Facts) workerSilent() []Answer {
	return f.eachLate(func(q Queue, w Waiting) (Answer, bool) {
		living, silent := f.workers(q.Name)
		if len(silent) == 0 || len(living) == 0 || q.Limited || w.Oldest.After(silent[0].Seen.Add(takenOver)) {
			return Answer{}, false
		}
		p := silent[0]
		return f.size(w, map[string]any{
			"queue": q.Name, "worker": p.name(), "silent_ms": f.sinceMs(p.Seen), "runs": p.tasks(), "living": len(living),
		}), true
	})
}

// workerStuck holds whether or not other tasks are late: the call holds its tasks' rows.
func (f Facts) workerStuck() (all []Answer) {
	for _, p := range f.Processes {
		for _, s := range p.Calls {
			if p.Silent || s.Limit == 0 || p.Seen.Sub(s.Since) <= s.Limit+callGrace {
				continue
			}
			all = append(all, Answer{Tasks: int64(s.Tasks), LateMs: f.sinceMs(s.Since), Evidence: map[string]any{
				"worker": p.name(), "kind": s.Kind, "task": s.Task, "tasks": s.Tasks, "run_ms": f.sinceMs(s.Since), "limit_ms": s.Limit.Milliseconds(),
			}})
			break // calls are sorted, the longest first
		}
	}
	return all
}

func (f Facts) paused() (all []Answer) {
	for _, q := range f.Queues {
		w := f.waiting(q.Name)
		if w.Late = w.Due; q.Paused.IsZero() || w.Due == 0 {
			continue
		}
		all = append(all, f.size(w, map[string]any{"queue": q.Name, "paused_ms": f.sinceMs(q.Paused)}))
	}
	return all
}

func (f Facts) limited() []Answer {
	return f.eachLate(func(q Queue, w Waiting) (Answer, bool) {
		return f.size(w, map[string]any{"queue": q.Name, "limit": q.Limit}), q.Limited
	})
}

func (f Facts) slowHandler() []Answer {
	return f.eachLate(func(q Queue, w Waiting) (Answer, bool) {
		var worst Handler
		for _, h := range f.Handlers {
			slow := h.Before > 0 && h.Now >= max(slowHandler, slower*h.Before)
			if slow && h.Now > worst.Now && f.has(q.Name, h.Kind) {
				worst = h
			}
		}
		return f.size(w, map[string]any{
			"queue": q.Name, "kind": worst.Kind, "handler_ms": worst.Now.Milliseconds(), "before_ms": worst.Before.Milliseconds(),
		}), worst.Kind != ""
	})
}

// has reports whether tasks of the kind wait in the queue.
func (f Facts) has(queue, kind string) bool {
	for _, w := range f.Waiting {
		if w.Queue == queue && w.Kind == kind && w.Due > 0 {
			return true
		}
	}
	return false
}

// behind holds where workers end tasks, and tasks are late all the same.
func (f Facts) behind() []Answer {
	return f.eachLate(func(q Queue, w Waiting) (Answer, bool) {
		a := f.size(w, map[string]any{"queue": q.Name, "kind": w.Kind, "due": w.Due, "ended_rate": q.Ended})
		if len(q.Coming) == 0 {
			a.variant = "unread"
			return a, f.ends(q)
		}
		coming := float64(q.Coming[0]) / q.Step.Seconds()
		a.Evidence["coming_rate"] = coming
		if after, drains := q.drained(w.Due); drains {
			a.Evidence["drained_ms"] = after.Milliseconds()
			if coming > q.Ended {
				a.variant = "eases"
			}
		} else {
			a.variant = "grows"
		}
		return a, f.ends(q) && (len(f.Away) == 0 || f.Now.Sub(w.Oldest) >= standsIn)
	})
}

// drained returns when nothing will wait any more, if tasks come as they are scheduled, and end as fast as now.
func (q Queue) drained(waiting int64) (time.Duration, bool) {
	left := float64(waiting)
	for i, coming := range q.Coming {
		before, change := left, float64(coming)-q.Ended*q.Step.Seconds()
		if left += change; left <= 0 {
			return time.Duration(i)*q.Step + time.Duration(before/-change*float64(q.Step)), true
		}
	}
	return 0, false
}

func (f Facts) noLeader() (all []Answer) {
	for _, l := range f.Leaders {
		if !l.Lead {
			all = append(all, Answer{variant: l.Name, Evidence: map[string]any{"leader": l.Name}})
		}
	}
	return all
}

func (f Facts) degraded() (all []Answer) {
	for _, q := range f.Queues {
		if q.Degraded > 0 {
			all = append(all, f.size(f.waiting(q.Name), map[string]any{"queue": q.Name, "workers": q.Degraded}))
		}
	}
	return all
}

func (f Facts) unknownKind() (all []Answer) {
	for _, w := range f.Waiting {
		of := map[string]any{"queue": w.Queue, "kind": w.Kind}
		if w.Unhandled > 0 {
			w.Late = w.Unhandled
			all = append(all, f.size(w, of))
		} else if w.Ahead > 0 && !w.HasWorker {
			all = append(all, f.ahead(w, of))
		}
	}
	return all
}

// unexplained holds where tasks are late and nothing that was read says why: no other rule about them holds.
func (f Facts) unexplained() []Answer {
	explained := map[string]bool{}
	for _, holds := range []func(Facts) []Answer{
		Facts.noWorker, Facts.workerSilent, Facts.limited, Facts.slowHandler, Facts.behind, Facts.degraded,
	} {
		for _, a := range holds(f) {
			explained[fmt.Sprint(a.Evidence["queue"])] = true
		}
	}
	servers := len(f.Away) > 0 || len(f.noLeader()) > 0
	return f.eachLate(func(q Queue, w Waiting) (Answer, bool) {
		return f.size(w, map[string]any{"queue": q.Name, "kind": w.Kind}), !servers && !explained[q.Name]
	})
}

func (f Facts) dying() (all []Answer) {
	for _, d := range f.Dead {
		if f.Now.Sub(d.Last) > deadLately {
			continue
		}
		all = append(all, Answer{Tasks: d.Tasks, Evidence: map[string]any{
			"kind": d.Kind, "error": d.Error, "tasks": d.Tasks, "first_ms": f.sinceMs(d.First), "last_ms": f.sinceMs(d.Last),
		}})
	}
	return all
}

func (f Facts) wasLate() []Answer {
	if f.Fired == nil || f.Fired.Late*goodPart <= f.Fired.Tasks {
		return nil
	}
	return []Answer{f.fired()}
}

// fired is the answer where nothing is late now.
func (f Facts) fired() Answer {
	if f.Fired == nil {
		return Answer{variant: "unread"}
	}
	a := Answer{Evidence: map[string]any{"fired": f.Fired.Tasks, "were_late": f.Fired.Late, "span_ms": f.Fired.Span.Milliseconds()}}
	if f.Fired.Tasks == 0 {
		a.variant = "idle"
		return a
	}
	part := 100 * float64(f.Fired.Tasks-f.Fired.Late) / float64(f.Fired.Tasks)
	a.Evidence["within"] = strconv.FormatFloat(math.Floor(part*100)/100, 'f', -1, 64) // 100 only if all were
	return a
}

func (p Process) name() string { return fmt.Sprintf("%s %s/%d", p.Role, p.Host, p.PID) }

// tasks is how many tasks the process said that it runs.
func (p Process) tasks() (n int) {
	for _, s := range p.Calls {
		n += s.Tasks
	}
	return n
}
