package why

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// wellWorld are facts of a deployment in which all is well.
func wellWorld() Facts {
	return Facts{
		Now: now, Away: map[string]string{},
		Leaders: []Leader{{Name: "event", Lead: true}, {Name: "daemon", Lead: true}},
		Queues: []Queue{
			{Name: "default", Ended: 6, LastEnd: ago(time.Second), Coming: []int64{360, 360}, Step: time.Minute},
			{Name: "mails", Coming: []int64{0, 0}, Step: time.Minute},
		},
		Waiting: []Waiting{
			{Queue: "default", Kind: "pet.meal", Due: 2, Oldest: ago(3 * time.Millisecond), HasWorker: true},
			{Queue: "mails", Kind: "mail.send", HasWorker: true},
		},
		Processes: []Process{
			{Role: "worker", Host: "a", PID: 7, Queues: []string{"default", "mails"}, Seen: ago(time.Second)},
			{Role: "worker", Host: "b", PID: 8, Queues: []string{"default", "mails"}, Seen: ago(2 * time.Second)},
			{Role: "event", Host: "a", PID: 9, Seen: ago(time.Second)},
		},
		Fired: &Fired{Span: 15 * time.Minute, Tasks: 4012, Late: 1},
	}
}

// late makes tasks of the default queue late.
func (f *Facts) late() {
	f.Waiting[0].Due, f.Waiting[0].Late, f.Waiting[0].Oldest = 150, 146, ago(79*time.Second)
}

// untaken makes tasks of another queue, which no worker runs.
func (f *Facts) untaken() {
	f.Waiting[1].Ahead, f.Waiting[1].Next = 900, now.Add(4*time.Minute)
	for i := range f.Processes {
		if p := &f.Processes[i]; p.Role == "worker" {
			p.Queues = []string{"default"}
		}
	}
}

// silence makes some workers silent.
func (f *Facts) silence(n int) {
	for i := range f.Processes {
		if p := &f.Processes[i]; p.Role == "worker" && i < n {
			p.Silent, p.Seen = true, ago(40*time.Second)
		}
	}
}

// cases has at least one fault for each rule, in the rules' order. What the faults are in a real deployment, package e2e's
// TestWhyOfRealFaults shows.
var cases = []struct {
	rule, fault string
	make        func(f *Facts)
	says        string
}{
	{"mysql-away", "MySQL is stopped, frozen or cut off", func(f *Facts) {
		*f = Facts{Now: now, Away: map[string]string{MySQL: "dial tcp: connection refused", Kafka: "timeout"}, Unread: []string{PartProcesses}}
	}, "MySQL does not answer: dial tcp: connection refused. No task runs until it is back, and none is lost."},
	{"no-worker", "every worker of a queue is stopped", func(f *Facts) {
		f.late()
		f.Processes, f.Queues[0].LastEnd = f.Processes[2:], ago(time.Minute)
	}, "No living worker runs queue default. Late tasks: 146, the oldest by 1 min 19 s."},
	{"no-worker", "the only workers of a queue are killed or frozen", func(f *Facts) {
		f.late()
		f.silence(2)
	}, "No living worker runs queue default: the last one, worker a/7, has been silent for 40 s. Late tasks: 146, the oldest by 1 min 19 s."},
	{"no-worker", "a queue has tasks ahead, and the workers run others", (*Facts).untaken, "No living worker runs queue mails. Tasks that become due there within 1 h: 900, the first in 4 min."},
	{"worker-silent", "one of two workers is frozen", func(f *Facts) {
		f.late()
		f.silence(1)
		f.Processes[0].Calls = []Call{{Kind: "pet.meal", Tasks: 3, Since: ago(41 * time.Second)}}
	}, "worker a/7 has been silent for 40 s, and ran 3 tasks. Late tasks of queue default: 146, the oldest by 1 min 19 s. Workers that live: 1."},
	{"worker-stuck", "a handler ignores the end of its time", func(f *Facts) {
		f.Processes[max(0, len(f.Processes)-2)].Calls = []Call{{Kind: "pet.meal", Task: "one", Tasks: 1, Since: ago(3 * time.Minute), Limit: 10 * time.Second}}
	}, "worker b/8 has run kind pet.meal for 3 min, and may for 10 s. It holds 1 task."},
	{"paused", "a queue is paused while tasks are due", func(f *Facts) {
		f.late()
		f.Queues[0].Paused = ago(5 * time.Minute)
	}, "Queue default has been paused for 5 min. Due tasks that wait: 150, the oldest for 1 min 19 s."},
	{"limited", "a queue's rate or concurrency is used up", func(f *Facts) {
		f.late()
		f.Queues[0].Limited, f.Queues[0].Limit = true, "1/s"
	}, "Queue default has reached its limit of 1/s. Late tasks: 146, the oldest by 1 min 19 s."},
	{"slow-handler", "a kind's handler becomes slow", func(f *Facts) {
		f.late()
		f.Handlers = []Handler{{"pet.meal", 700 * time.Millisecond, 8 * time.Millisecond}, {"pet.walk", time.Second, time.Second}}
	}, "The handler of pet.meal takes 700 ms, and took 8 ms before. Late tasks of queue default: 146, the oldest by 1 min 19 s."},
	{"behind", "a crowd is due at once", func(f *Facts) {
		f.late()
		f.Queues[0].Coming = []int64{300, 60}
	}, "The workers of queue default are behind: they end 6.0/s, and 5.0/s come. Late tasks: 146, most of kind pet.meal, the oldest by " +
		"1 min 19 s. At this rate all is on time in 1 min 18 s."},
	{"behind", "more comes all the time than the workers end", func(f *Facts) {
		f.late()
		f.Queues[0].Coming = []int64{402, 402}
	}, "The workers of queue default are behind: they end 6.0/s, and 6.7/s come. Late tasks: 146, most of kind pet.meal, the oldest by " +
		"1 min 19 s. At this rate it is not on time within an hour."},
	{"behind", "more comes now than the workers end, and nothing later", func(f *Facts) {
		f.late()
		f.Queues[0].Coming = []int64{402, 0}
	}, "The workers of queue default are behind: they end 6.0/s, and 6.7/s come. Late tasks: 146, most of kind pet.meal, the oldest by " +
		"1 min 19 s. Fewer come later: all is on time in 1 min 32 s."},
	{
		"kafka-away", "Kafka is away, and tasks are late by no more than that", func(f *Facts) {
			f.late()
			f.Waiting[0].Oldest = ago(2 * time.Second)
			f.Away[Kafka] = "timeout"
		}, "Kafka does not answer: timeout. Tasks run, up to 2 s late: workers look for them in MySQL. None is lost.",
	},
	{
		"kafka-away", "Kafka is stopped", func(f *Facts) { f.Away[Kafka] = "timeout" },
		"Kafka does not answer: timeout. Tasks run, up to 2 s late: workers look for them in MySQL. None is lost.",
	},
	{
		"redis-away", "Redis is stopped", func(f *Facts) { f.Away[Redis] = "refused" },
		"Redis does not answer: refused. Tasks run, up to 2 s late: workers look for them in MySQL. None is lost.",
	},
	{
		"zookeeper-away", "ZooKeeper is stopped", func(f *Facts) { f.Away[ZooKeeper] = "refused" },
		"ZooKeeper does not answer: refused. Tasks run on time; but nobody takes over where a leader ends.",
	},
	{
		"no-leader", "every event process is stopped", func(f *Facts) { f.Leaders[0].Lead = false },
		"No living process leads event. Tasks run, up to 2 s late: workers look for them in MySQL.",
	},
	{
		"no-leader", "every daemon is stopped", func(f *Facts) { f.Leaders[1].Lead = false },
		"No living process leads daemon. Tasks run on time; but what goes astray is not mended, and mass changes wait.",
	},
	{
		"degraded", "hints come late, though all servers answer", func(f *Facts) { f.Queues[0].Degraded = 2 },
		"2 workers of queue default fell back to looking in MySQL, because hints come late. Tasks run, some up to 2 s late.",
	},
	{"unknown-kind", "tasks of a kind are due that no worker handles", func(f *Facts) {
		f.Waiting = append(f.Waiting, Waiting{Queue: "default", Kind: "pet.maal", Due: 3, Late: 3, Oldest: ago(time.Hour), Unhandled: 5})
	}, "No living worker of queue default handles kind pet.maal. Tasks that wait: 5."},
	{"unknown-kind", "tasks of such a kind will be due", func(f *Facts) {
		f.Waiting = append(f.Waiting, Waiting{Queue: "default", Kind: "pet.maal", Ahead: 5, Next: now.Add(4 * time.Minute)})
	}, "No living worker of queue default handles kind pet.maal. Its tasks that become due within 1 h: 5, the first in 4 min."},
	{"unexplained", "workers live, and end nothing that is due", func(f *Facts) {
		f.late()
		f.Queues[0].LastEnd = time.Time{}
	}, "Tasks of queue default are late, and nothing that was read says why: 146, most of kind pet.meal, the oldest by 1 min 19 s."},
	{"dying", "a kind's tasks use up their attempts by one error", func(f *Facts) {
		f.Dead = []Dead{{"pet.meal", "bank away", 1200, ago(20 * time.Minute), ago(time.Second)}, {"old", "old", 9, ago(9 * time.Hour), ago(8 * time.Hour)}}
	}, "1,200 tasks of kind pet.meal died of one error, the first 20 min ago, the last 1 s ago: bank away."},
	{
		"was-late", "a fault is over", func(f *Facts) { f.Fired.Late = 50 },
		"Nothing is late now. Of 4,012 tasks that fired in 15 min, 50 came over a second late.",
	},
	{"on-time", "none", func(*Facts) {}, "On time: 4,012 fired in 15 min, 99.97 % within a second."},
	{"on-time", "none, and nothing was due", func(f *Facts) { f.Fired.Tasks, f.Fired.Late = 0, 0 }, "On time: nothing was due in 15 min."},
}

func (c *Answer) clear() string { return c.Rule + ": " + c.Sentence }

// Each rule has a fault that makes it true, and its answer comes first. Each text is filled in, in both languages.
func TestEachRuleHasItsFault(t *testing.T) {
	t.Parallel()
	var covered []string
	for _, c := range cases {
		f := wellWorld()
		c.make(&f)
		got := Why(f)[0]
		if got.Rule != c.rule || got.Sentence != c.says {
			t.Errorf("%s: got %s\nwant %s: %s", c.fault, got.clear(), c.rule, c.says)
		}
		wantWhole(t, got)
		if !slices.Contains(covered, c.rule) {
			covered = append(covered, c.rule)
		}
	}
	var names []string
	for _, r := range rules() {
		names = append(names, r.name)
	}
	if d := cmp.Diff(names, covered); d != "" {
		t.Errorf("the rules, and those with a fault here, in their order (-rules +faults):\n%s", d)
	}
}

var unfilled = regexp.MustCompile(`[{}]`)

// wantWhole wants a text in both languages, with the same evidence, and a runbook that exists.
func wantWhole(t *testing.T, a Answer) {
	t.Helper()
	for _, lang := range []string{"en", Chinese} {
		sentence, act := a.In(lang, shown)
		if sentence == "" || unfilled.MatchString(sentence+act) {
			t.Errorf("%s %q in %s: %q, %q", a.Rule, a.variant, lang, sentence, act)
		}
	}
	if _, err := os.Stat(filepath.Join("../../docs/runbooks", a.Runbook+".md")); a.Runbook != "" && err != nil {
		t.Errorf("%s: %v", a.Rule, err)
	}
}

// Both languages have the same texts, of the same evidence.
func TestLanguagesSayTheSame(t *testing.T) {
	t.Parallel()
	names := func(said string) []string {
		var all []string
		for _, place := range named.FindAllStringSubmatch(said, -1) {
			all = append(all, place[1])
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	english, chinese := englishTexts(), chineseTexts()
	if len(english) != len(chinese) {
		t.Errorf("%d texts in English, %d in Chinese", len(english), len(chinese))
	}
	for key, en := range english {
		zh := chinese[key]
		for what, pair := range map[string][2]string{"sentence": {en.sentence, zh.sentence}, "act": {en.act, zh.act}} {
			if d := cmp.Diff(names(pair[0]), names(pair[1])); d != "" || (pair[0] == "") != (pair[1] == "") {
				t.Errorf("%s of %s (-English +Chinese):\n%s", what, key, d)
			}
		}
	}
}

// Of several faults, the one whose rule stands first is answered first, and all others follow. What the first explains is not called
// unexplained.
func TestFaultsAnswerInTheRulesOrder(t *testing.T) {
	t.Parallel()
	order := map[string]int{}
	for i, r := range rules() {
		order[r.name] = i
	}
	for i, a := range cases[1 : len(cases)-3] {
		for _, b := range cases[i+2 : len(cases)-3] {
			f := wellWorld()
			a.make(&f)
			b.make(&f)
			got := Why(f)
			if !slices.IsSortedFunc(got, func(a, b Answer) int { return order[a.Rule] - order[b.Rule] }) {
				t.Errorf("%s, and %s: out of order: %v", a.fault, b.fault, got)
			}
			if slices.ContainsFunc(got, Answer.Fine) {
				t.Errorf("%s, and %s: on time: %v", a.fault, b.fault, got)
			}
		}
	}
}

// A process that is silent, a pause and a limit of a queue without late tasks make nobody late.
func TestWhatMakesNobodyLateIsNoAnswer(t *testing.T) {
	t.Parallel()
	f := wellWorld()
	f.Processes[0].Silent, f.Queues[1].Paused, f.Queues[0].Limited = true, ago(time.Hour), true
	f.Handlers = []Handler{{"pet.meal", time.Second, time.Millisecond}}
	if got := Why(f); len(got) != 1 || !got[0].Fine() {
		t.Errorf("got %v", got)
	}
	f.late()
	if f.Processes[0].Seen = ago(40 * time.Second); Why(f)[0].Rule != "limited" {
		t.Errorf("with a silent worker, of tasks that wait for a limit: %v", Why(f))
	}
	if f.Queues[0].Limited, f.Processes[0].Seen = false, ago(3*time.Minute); Why(f)[0].Rule != "slow-handler" {
		t.Errorf("of tasks that were due when others had taken over from a silent worker: %v", Why(f))
	}
}

// That no worker will run what is ahead is said only where workers report themselves, and none ran the queue lately: one may lack the
// rights to.
func TestNoWorkerAhead(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		make func(f *Facts)
		says bool
	}{
		"workers run other queues":      {func(*Facts) {}, true},
		"no worker reports itself":      {func(f *Facts) { f.Processes = f.Processes[2:] }, false},
		"its tasks took effect lately":  {func(f *Facts) { f.Queues[1].Fired = 1 }, false},
		"and its last worker is silent": {func(f *Facts) { f.Queues[1].Fired = 1; f.silence(1); f.Processes[0].Queues = []string{"mails"} }, true},
		"it is paused":                  {func(f *Facts) { f.Queues[1].Paused = ago(time.Minute) }, false},
		"it was not read what fired":    {func(f *Facts) { f.Unread = []string{PartFired} }, false},
	} {
		f := wellWorld()
		f.untaken()
		c.make(&f)
		if got := Why(f)[0]; (got.Rule == "no-worker") != c.says {
			t.Errorf("%s: %s", what, got.clear())
		}
	}
}

// Without a fact its rules do not hold: nothing is guessed.
func TestMissingFacts(t *testing.T) {
	t.Parallel()
	f := wellWorld()
	f.late()
	f.Processes, f.Unread, f.Queues[0].LastEnd = nil, []string{PartProcesses}, time.Time{}
	if got := Why(f)[0]; got.Rule != "unexplained" {
		t.Errorf("without processes: %s", got.clear())
	}
	f = wellWorld()
	f.Fired = nil
	if got := Why(f)[0]; got.Sentence != "Nothing is late now." {
		t.Errorf("without what fired: %s", got.clear())
	}
	f.late()
	f.Queues[0].Coming = nil
	if got := Why(f)[0]; got.Rule != "behind" || strings.Contains(got.Sentence, "At this rate") {
		t.Errorf("without what comes: %s", got.clear())
	}
	// A worker without rights on the table of processes is not listed, and ends tasks.
	f.Processes = f.Processes[2:]
	if got := Why(f)[0]; got.Rule != "behind" {
		t.Errorf("without rows of workers: %s", got.clear())
	}
}

func TestWhyTask(t *testing.T) {
	t.Parallel()
	pending := Task{
		ID: "one", Kind: "pet.meal", Queue: "default", State: Pending, Due: ago(79 * time.Second), Run: ago(79 * time.Second), MaxAttempts: 25,
	}
	for _, c := range []struct {
		what string
		make func(f *Facts, t *Task)
		rule string
		says string
	}{
		{"done", func(_ *Facts, t *Task) { t.State, t.Lag = Done, 3*time.Millisecond }, "task-done", "It took effect 3 ms after it was due."},
		{"done late", func(_ *Facts, t *Task) { t.State, t.Lag = Done, 79*time.Second }, "task-done", "It took effect 1 min 19 s after it was due."},
		{"cancelled", func(_ *Facts, t *Task) { t.State = Cancelled }, "task-cancelled", "It was cancelled: it never runs."},
		{"dead", func(_ *Facts, t *Task) { t.State, t.Attempt, t.Error = Died, 25, "bank away" }, "task-dead", "It is dead after 25 failed attempts: bank away"},
		{"dead at once", func(_ *Facts, t *Task) { t.State, t.Attempt, t.Error = Died, 1, "bank away" }, "task-dead", "It is dead after 1 failed attempt: bank away"},
		{"a frozen worker has it", func(f *Facts, t *Task) {
			f.Processes[0].Silent, f.Processes[0].Seen = true, ago(40*time.Second)
			f.Processes[0].Calls = []Call{{Task: t.ID, Since: ago(41 * time.Second)}}
		}, "task-held", "worker a/7 began it 41 s ago, and has been silent for 40 s."},
		{"a worker runs it", func(f *Facts, t *Task) {
			f.Processes[0].Calls = []Call{{Task: t.ID, Since: ago(3 * time.Second), Limit: 10 * time.Second}}
		}, "task-runs", "worker a/7 has been running it for 3 s."},
		{"a worker runs it for too long", func(f *Facts, t *Task) {
			f.Processes[0].Calls = []Call{{Task: t.ID, Since: ago(time.Minute), Limit: 10 * time.Second}}
		}, "task-runs", "worker a/7 has been running it for 1 min, and may for 10 s."},
		{
			"in order", func(_ *Facts, t *Task) { t.Head, t.Run = "two", now.Add(time.Second) }, "task-behind",
			"It was due 1 min 19 s ago, and waits for an earlier task of its order key, two.",
		},
		{
			"no handler", func(_ *Facts, t *Task) { t.Unhandled, t.Run = true, now.Add(4*time.Second) }, "task-unknown-kind",
			"It was due 1 min 19 s ago. No worker that took it handles kind pet.meal; another one is tried in 4 s.",
		},
		{
			"failed", func(_ *Facts, t *Task) { t.Attempt, t.Error, t.Run = 2, "bank away", now.Add(4*time.Second) }, "task-retry",
			"It was due 1 min 19 s ago. Attempt 2 of 25 failed: bank away. The next one comes in 4 s.",
		},
		{
			"limited", func(_ *Facts, t *Task) { t.Limited, t.Run = true, now.Add(4*time.Second) }, "task-limited",
			"It was due 1 min 19 s ago. Queue default has a rate for each owner, and others of its owner come first; its slot comes in 4 s.",
		},
		{
			"paused", func(_ *Facts, t *Task) { t.Paused, t.Run = true, now.Add(4*time.Second) }, "task-paused",
			"It was due 1 min 19 s ago. It is one of those that are paused, and goes on in 4 s.",
		},
		{
			"snoozed", func(_ *Facts, t *Task) { t.Run = now.Add(4 * time.Second) }, "task-put-off",
			"Its handler, or a worker that stopped, has put it off. The next try comes in 4 s.",
		},
		{"later", func(_ *Facts, t *Task) { t.Due, t.Run = now.Add(time.Hour), now.Add(time.Hour) }, "task-not-due", "Due in 1 h."},
		{"now", func(_ *Facts, t *Task) { t.Due, t.Run = ago(time.Second), ago(time.Second) }, "task-due", "It is due since 1 s: a worker takes it at once."},
		{"late for no reason", func(*Facts, *Task) {}, "task-due", "It was due 1 min 19 s ago, and nothing that was read says why it waits."},
		{
			"its queue is paused", func(f *Facts, _ *Task) { f.Queues[0].Paused = ago(time.Minute) }, "paused",
			"Queue default has been paused for 1 min. Due tasks that wait: 2, the oldest for 3 ms.",
		},
		{"another queue is paused, and a task of it waits", func(f *Facts, _ *Task) {
			f.Queues[1].Paused, f.Waiting[1].Due = ago(time.Minute), 1
		}, "task-due", "It was due 1 min 19 s ago, and nothing that was read says why it waits."},
		{
			"Kafka is away", func(f *Facts, _ *Task) { f.Away[Kafka] = "timeout" }, "kafka-away",
			"Kafka does not answer: timeout. Tasks run, up to 2 s late: workers look for them in MySQL. None is lost.",
		},
	} {
		f, one := wellWorld(), pending
		c.make(&f, &one)
		got := OfTask(f, one)
		if got.Rule != c.rule || got.Sentence != c.says {
			t.Errorf("%s: got %s\nwant %s: %s", c.what, got.clear(), c.rule, c.says)
		}
		if fine := []string{"done", "cancelled", "a worker runs it", "paused", "limited", "snoozed", "later", "now"}; got.Fine() != slices.Contains(fine, c.what) {
			t.Errorf("%s: fine: %v", c.what, got.Fine())
		}
		wantWhole(t, got)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ms", 999 * time.Millisecond: "999 ms", 79 * time.Second: "1 min 19 s", 12 * time.Minute: "12 min", 26 * time.Hour: "1 d 2 h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

const (
	page  = "../../docs/WHY.md"
	begin = "<!-- rules: DUETIME_UPDATE_WHY=1 go test ./internal/why writes them -->\n"
	end   = "<!-- end -->"
)

// TestPage holds the table of docs/WHY.md to the cases above.
func TestPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| rule | fault | what it answers | what to do next | runbook |\n|---|---|---|---|---|\n")
	for _, c := range cases {
		f := wellWorld()
		c.make(&f)
		a := Why(f)[0]
		runbook := "–"
		if a.Runbook != "" {
			runbook = fmt.Sprintf("[%s](runbooks/%[1]s.md)", a.Runbook)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", a.Rule, c.fault, a.Sentence, a.Act, runbook)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	table, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the rules", page)
	}
	if os.Getenv("DUETIME_UPDATE_WHY") != "" {
		if err := os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(b.String(), table); d != "" {
		t.Errorf("%s differs (-rules +page); DUETIME_UPDATE_WHY=1 writes it:\n%s", page, d)
	}
}
