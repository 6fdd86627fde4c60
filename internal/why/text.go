package why

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Chinese is the language besides English.
const Chinese = "zh"

// text is what an answer says in one language. Names in braces stand for the evidence; a plural after the name is what it counts.
type text struct{ sentence, act string }

// named is a place of a text for a piece of the evidence.
var named = regexp.MustCompile(`\{(\w+)(?: ([a-z ]+)s)?\}`)

// spoken fills the English sentence and act in.
func (a Answer) spoken() Answer {
	a.Sentence, a.Act = a.In("", shown)
	return a
}

// In says the answer in a language, English unless it is Chinese. show writes a piece of the evidence.
func (a Answer) In(lang string, show func(name string, value any) string) (sentence, act string) {
	texts := englishTexts()
	if lang == Chinese {
		texts = chineseTexts()
	}
	t, special := texts[a.Rule+"."+a.variant]
	if !special {
		t = texts[a.Rule]
	}
	fill := func(part string) string {
		place := named.FindStringSubmatch(part)
		value, known := a.Evidence[place[1]]
		switch {
		case !known:
			return part
		case place[2] == "":
			return show(place[1], value)
		case fmt.Sprint(value) == "1":
			return show(place[1], value) + " " + place[2]
		}
		return show(place[1], value) + " " + place[2] + "s"
	}
	return named.ReplaceAllStringFunc(t.sentence, fill), named.ReplaceAllStringFunc(t.act, fill)
}

// shown writes a piece of the evidence in English.
func shown(name string, value any) string {
	switch value := value.(type) {
	case int:
		return shown(name, int64(value))
	case int64:
		if strings.HasSuffix(name, "_ms") {
			return span(time.Duration(value) * time.Millisecond)
		}
		return grouped(value)
	case float64:
		return fmt.Sprintf("%.1f/s", value)
	}
	return fmt.Sprint(value)
}

// span is a duration in its largest unit, and the next one if there are few of the largest.
func span(d time.Duration) string {
	const parted = 10 // of a unit; below it, the next one is said too
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		n := d / u.size
		if n == 0 {
			continue
		}
		said := fmt.Sprintf("%d %s", n, u.name)
		if i+1 < len(units) && n < parted {
			if more := d % u.size / units[i+1].size; more > 0 {
				said += fmt.Sprintf(" %d %s", more, units[i+1].name)
			}
		}
		return said
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func englishTexts() map[string]text {
	all := map[string]text{
		mysqlAway: {
			"MySQL does not answer: {error}. No task runs until it is back, and none is lost.",
			"Bring MySQL back. All processes go on by themselves.",
		},
		"no-worker": {
			"No living worker runs queue {queue}. Late tasks: {tasks}, the oldest by {late_ms}.",
			"Start a worker of the queue. duetime processes lists what lives.",
		},
		"no-worker.silent": {
			"No living worker runs queue {queue}: the last one, {worker}, has been silent for {silent_ms}. Late tasks: {tasks}, the oldest by {late_ms}.",
			"Look why {worker} ended or froze, and start it anew.",
		},
		"no-worker.ahead": {
			"No living worker runs queue {queue}. Tasks that become due there within {span_ms}: {tasks}, the first in {next_ms}.",
			"Start a worker of the queue. duetime processes lists what lives.",
		},
		"worker-silent": {
			"{worker} has been silent for {silent_ms}, and ran {runs tasks}. Late tasks of queue {queue}: {tasks}, the oldest by {late_ms}. " +
				"Workers that live: {living}.",
			"Kill {worker} if it is frozen or cut off: the others take over what it held.",
		},
		"worker-stuck": {
			"{worker} has run kind {kind} for {run_ms}, and may for {limit_ms}. It holds {tasks tasks}.",
			"Look what the handler waits for, and restart the worker: its tasks are rolled back and run anew. The first is {task}.",
		},
		"paused": {
			"Queue {queue} has been paused for {paused_ms}. Due tasks that wait: {tasks}, the oldest for {late_ms}.",
			"If the pause is over: duetime resume {queue}",
		},
		"limited": {
			"Queue {queue} has reached its limit of {limit}. Late tasks: {tasks}, the oldest by {late_ms}.",
			"If it may do more: duetime queue rate {queue} RATE, or duetime queue concurrency {queue} N",
		},
		"slow-handler": {
			"The handler of {kind} takes {handler_ms}, and took {before_ms} before. Late tasks of queue {queue}: {tasks}, the oldest by {late_ms}.",
			"Look at what the handler calls, and at what was deployed last: duetime processes shows versions.",
		},
		"behind": {
			"The workers of queue {queue} are behind: they end {ended_rate}, and {coming_rate} come. Late tasks: {tasks}, most of kind {kind}, " +
				"the oldest by {late_ms}. At this rate all is on time in {drained_ms}.",
			"Wait, or add workers.",
		},
		"behind.grows": {
			"The workers of queue {queue} are behind: they end {ended_rate}, and {coming_rate} come. Late tasks: {tasks}, most of kind {kind}, " +
				"the oldest by {late_ms}. At this rate it is not on time within an hour.",
			"Add workers, or raise worker.concurrency; or limit what else uses MySQL.",
		},
		"behind.eases": {
			"The workers of queue {queue} are behind: they end {ended_rate}, and {coming_rate} come. Late tasks: {tasks}, most of kind {kind}, " +
				"the oldest by {late_ms}. Fewer come later: all is on time in {drained_ms}.",
			"Add workers, or wait.",
		},
		"behind.unread": {
			"The workers of queue {queue} are behind: they end {ended_rate}. Late tasks: {tasks}, most of kind {kind}, the oldest by {late_ms}.",
			"Add workers, or raise worker.concurrency.",
		},
	}
	maps.Copy(all, englishPipelineTexts())
	maps.Copy(all, englishTaskTexts())
	return all
}

// englishPipelineTexts are of what stands before the workers, and of what is no cause.
func englishPipelineTexts() map[string]text {
	return map[string]text{
		"kafka-away": {
			"Kafka does not answer: {error}. Tasks run, up to 2 s late: workers look for them in MySQL. None is lost.",
			"Bring Kafka back. Its data may be lost: workers and leaders go on by themselves.",
		},
		"redis-away": {
			"Redis does not answer: {error}. Tasks run, up to 2 s late: workers look for them in MySQL. None is lost.",
			"Bring Redis back, empty if need be: the daemon fills it from the rows.",
		},
		"zookeeper-away": {
			"ZooKeeper does not answer: {error}. Tasks run on time; but nobody takes over where a leader ends.",
			"Bring ZooKeeper back. Until then, restart no event process and no daemon.",
		},
		"no-leader.event": {
			"No living process leads event. Tasks run, up to 2 s late: workers look for them in MySQL.",
			"Start an event process, or look why none is elected: duetime leader show",
		},
		"no-leader.daemon": {
			"No living process leads daemon. Tasks run on time; but what goes astray is not mended, and mass changes wait.",
			"Start a daemon, or look why none is elected: duetime leader show",
		},
		"degraded": {
			"{workers workers} of queue {queue} fell back to looking in MySQL, because hints come late. Tasks run, some up to 2 s late.",
			"Look at the event leader, and at how fast Kafka and Redis answer.",
		},
		"unknown-kind": {
			"No living worker of queue {queue} handles kind {kind}. Tasks that wait: {tasks}.",
			"Deploy a worker that handles the kind, or cancel its tasks: duetime bulk cancel --kind {kind}",
		},
		"unknown-kind.ahead": {
			"No living worker of queue {queue} handles kind {kind}. Its tasks that become due within {span_ms}: {tasks}, the first in {next_ms}.",
			"Deploy a worker that handles the kind, or cancel its tasks: duetime bulk cancel --kind {kind}",
		},
		"unexplained": {
			"Tasks of queue {queue} are late, and nothing that was read says why: {tasks}, most of kind {kind}, the oldest by {late_ms}.",
			"Look at the workers' logs, and compare rows with the index: duetime verify",
		},
		"dying": {
			"{tasks tasks} of kind {kind} died of one error, the first {first_ms} ago, the last {last_ms} ago: {error}.",
			"Mend the handler, then: duetime dead retry --kind {kind}",
		},
		wasLate: {
			"Nothing is late now. Of {fired tasks} that fired in {span_ms}, {were_late} came over a second late.",
			"A late task says why: duetime why ID",
		},
		onTime:             {"On time: {fired} fired in {span_ms}, {within} % within a second.", ""},
		onTime + ".idle":   {"On time: nothing was due in {span_ms}.", ""},
		onTime + ".unread": {"Nothing is late now.", ""},
	}
}

func englishTaskTexts() map[string]text {
	return map[string]text{
		"task-done":      {"It took effect {lag_ms} after it was due.", ""},
		"task-done.late": {"It took effect {lag_ms} after it was due.", "What happened to its queue meanwhile stands in its life: duetime task get {task}"},
		"task-cancelled": {"It was cancelled: it never runs.", ""},
		"task-dead": {
			"It is dead after {attempt failed attempts}: {error}",
			"Mend what failed, then: duetime task retry {task}",
		},
		"task-held": {
			"{worker} began it {run_ms} ago, and has been silent for {silent_ms}.",
			"Kill {worker} if it is frozen or cut off: another worker takes the task over.",
		},
		"task-runs": {
			"{worker} has been running it for {run_ms}.",
			"",
		},
		"task-runs.long": {
			"{worker} has been running it for {run_ms}, and may for {limit_ms}.",
			"Look what the handler waits for, and restart the worker: the task is rolled back and runs anew.",
		},
		"task-behind": {
			"It was due {late_ms} ago, and waits for an earlier task of its order key, {head}.",
			"Ask why that one has not ended: duetime why {head}",
		},
		"task-paused": {
			"It was due {late_ms} ago. It is one of those that are paused, and goes on in {next_ms}.",
			"Who has paused it, and how to resume it: duetime pause --list",
		},
		"task-limited": {
			"It was due {late_ms} ago. Queue {queue} has a rate for each owner, and others of its owner come first; its slot comes in {next_ms}.",
			"",
		},
		"task-unknown-kind": {
			"It was due {late_ms} ago. No worker that took it handles kind {kind}; another one is tried in {next_ms}.",
			"Deploy a worker that handles the kind, or cancel the task: duetime task cancel {task}",
		},
		"task-retry": {
			"It was due {late_ms} ago. Attempt {attempt} of {max_attempts} failed: {error}. The next one comes in {next_ms}.",
			"To try it now, once what failed is mended: duetime task reschedule {task} --at now",
		},
		"task-put-off":  {"Its handler, or a worker that stopped, has put it off. The next try comes in {next_ms}.", ""},
		"task-not-due":  {"Due in {next_ms}.", ""},
		"task-due":      {"It is due since {late_ms}: a worker takes it at once.", ""},
		"task-due.late": {"It was due {late_ms} ago, and nothing that was read says why it waits.", "Look at the workers' logs, and compare rows with the index: duetime verify"},
	}
}
