// Package why says why tasks are late: from facts about a deployment, by rules in a fixed order (rules.go), each of which answers with a
// sentence, its evidence, how many tasks are late and by how much, and what to do next. The answer of the first rule that holds comes
// first. The console's pages, duetime why, the alerts and the runbooks speak by it.
//
// It promises to guess nothing: a rule whose facts could not be read does not hold, and Facts says what could not be read. It asks no
// server; package console reads the facts.
package why

import (
	"cmp"
	"slices"
	"time"
)

// The servers, as answers name them.
const (
	MySQL     = "MySQL"
	Redis     = "Redis"
	Kafka     = "Kafka"
	ZooKeeper = "ZooKeeper"
)

// The parts of the facts that may be missing in Unread, besides the servers.
const (
	PartQueues    = "pauses and limits"
	PartWaiting   = "what is due"
	PartBehind    = "what is due behind crowds of other queues and kinds"
	PartProcesses = "processes"
	PartLeaders   = "leaders"
	PartRates     = "how fast tasks end and come"
	PartHandlers  = "how long handlers take"
	PartDead      = "dead tasks"
	PartFired     = "how late tasks were"
)

// AheadSpan is how far ahead tasks are asked whether a worker takes them.
const AheadSpan = time.Hour

// Facts are a deployment's figures at one moment. Times are of the database's clock.
type Facts struct {
	Now       time.Time
	Away      map[string]string // servers that do not answer, and with what error
	Leaders   []Leader          // none where nobody is elected
	Queues    []Queue
	Waiting   []Waiting
	Processes []Process
	Handlers  []Handler
	Dead      []Dead
	Fired     *Fired   // nil: not read
	Unread    []string // servers and parts that could not be asked or read
}

// Leader is the newest term of a leadership.
type Leader struct {
	Name string
	Lead bool // a living process says that it leads the term
}

// Queue is a queue's state.
type Queue struct {
	Name     string
	Paused   time.Time // since when; zero: it is not paused
	Limited  bool      // due tasks wait for its limit
	Limit    string    // for people
	Degraded int       // workers for which looks at MySQL stand in for hints
	// Ended is how many of its tasks workers end in a second, and LastEnd when they ended the last; zero: none lately. Coming is how
	// many become due in the next steps of Step; none: not read.
	Ended   float64
	LastEnd time.Time
	Coming  []int64
	Fired   int64 // of its tasks, in Fired's span
	Step    time.Duration
}

// Waiting is what is due of a queue and a kind, and not done.
type Waiting struct {
	Queue, Kind string
	Due         int64     // all of it
	Late        int64     // for longer than a task should wait
	Oldest      time.Time // the earliest run time; zero: none is due
	Ahead       int64     // what becomes due within AheadSpan
	Next        time.Time // the earliest run time of that
	Unhandled   int64     // tasks that wait for a worker which handles their kind, due or put off
	HasWorker   bool      // some living worker of the queue handles the kind, or no living worker says which kinds it handles
}

// Process is a process that reports itself, and has not said that it stopped.
type Process struct {
	Role, Host string
	PID        int
	Queues     []string // whose tasks it runs
	Silent     bool     // it has missed its reports
	Seen       time.Time
	Calls      []Call
}

// Call is a call of a handler that has not returned.
type Call struct {
	Kind  string
	Task  string // the first task of the call
	Tasks int
	Since time.Time
	Limit time.Duration // 0: none is known
}

// Handler is how long a kind's handler takes: lately, and before, as far back as is known.
type Handler struct {
	Kind        string
	Now, Before time.Duration
}

// Dead is the dead tasks of one kind that died of alike errors.
type Dead struct {
	Kind, Error string
	Tasks       int64
	First, Last time.Time
}

// Fired is what was done in a span of time, up to now.
type Fired struct {
	Span  time.Duration
	Tasks int64
	Late  int64 // by more than a second
}

// Answer is what a rule says. Names of the evidence that end in _ms are milliseconds, in _rate tasks a second.
type Answer struct {
	Rule     string         `json:"rule"`
	Sentence string         `json:"sentence"`
	Act      string         `json:"act,omitempty"`     // what to do next
	Runbook  string         `json:"runbook,omitempty"` // a page of docs/runbooks
	Tasks    int64          `json:"tasks"`             // that are late
	LateMs   int64          `json:"late_ms"`           // by how much, at most
	Evidence map[string]any `json:"evidence,omitempty"`

	variant string // of its text
}

// Fine reports whether nothing is wrong, or nothing any more; of a task, whether it waits or ended as it should.
func (a Answer) Fine() bool {
	switch a.Rule {
	case onTime, wasLate, "task-cancelled", "task-paused", "task-limited", "task-put-off", "task-not-due":
		return true
	case "task-done", "task-runs", "task-due":
		return a.variant == ""
	}
	return false
}

// Why returns the answers of all rules that hold, in the rules' order. There is always one.
func Why(f Facts) []Answer {
	var all []Answer
	for _, r := range rules() {
		found := r.holds(f)
		slices.SortStableFunc(found, func(a, b Answer) int { return cmp.Compare(b.Tasks, a.Tasks) })
		for _, a := range found {
			if a.Rule, a.Runbook = r.name, r.runbook; r.name != onTime && r.name != wasLate || len(all) == 0 {
				all = append(all, a.spoken())
			}
		}
	}
	return all
}

func (f Facts) lacks(part string) bool { return slices.Contains(f.Unread, part) }

// waiting adds up what is late of a queue, without kinds that none of its workers handles.
func (f Facts) waiting(queue string) (w Waiting) {
	for _, of := range f.Waiting {
		if of.Queue != queue || !of.HasWorker {
			continue
		}
		w.Due += of.Due
		if of.Late > w.Late && of.Late > 0 {
			w.Kind = of.Kind // that has most
		}
		w.Late, w.Ahead, w.Next = w.Late+of.Late, w.Ahead+of.Ahead, earlier(w.Next, of.Next)
		w.Oldest = earlier(w.Oldest, of.Oldest)
	}
	return w
}

// earlier is the first of two moments that are not zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// workers returns the living and the silent processes that run a queue's tasks.
func (f Facts) workers(queue string) (living, silent []Process) {
	for _, p := range f.Processes {
		switch {
		case !slices.Contains(p.Queues, queue):
		case p.Silent:
			silent = append(silent, p)
		default:
			living = append(living, p)
		}
	}
	slices.SortFunc(silent, func(a, b Process) int { return b.Seen.Compare(a.Seen) })
	return living, silent
}

// sinceMs is how long ago a moment is; 0 for the zero time.
func (f Facts) sinceMs(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return max(0, f.Now.Sub(at).Milliseconds())
}

// size is an answer about late tasks.
func (f Facts) size(w Waiting, evidence map[string]any) Answer {
	late := f.sinceMs(w.Oldest)
	evidence["tasks"], evidence["late_ms"] = w.Late, late
	return Answer{Tasks: w.Late, LateMs: late, Evidence: evidence}
}
