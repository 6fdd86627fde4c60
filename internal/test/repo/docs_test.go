package repo_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime"
	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/deliver"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// TestDocsSayWhatTheCodeDoes compares figures in the docs with the constants that they describe. A figure that is not in
// this table is not checked, so whoever writes a figure into the docs adds it.
func TestDocsSayWhatTheCodeDoes(t *testing.T) {
	t.Parallel()
	const (
		apiPage      = "docs/API.md"
		architecture = "docs/ARCHITECTURE.md"
		configPage   = "docs/CONFIG.md"
		consolePage  = "docs/CONSOLE.md"
		contract     = "docs/SQL-CONTRACT.md"
		guide        = "docs/GUIDE.md"
		operating    = "docs/OPERATING.md"
		push         = "docs/PUSH.md"
		whyPage      = "docs/WHY.md"
	)
	cfg := config.Default()
	put := source{t, "internal/indexwriter/writer.go"}
	queue := source{t, "internal/indexwriter/queue.go"}
	look, degraded := source{t, "internal/worker/look.go"}, source{t, "internal/worker/degraded.go"}
	hooks := source{t, "internal/worker/hooks.go"}
	breaker, answer := source{t, "pkg/deliver/breaker.go"}, source{t, "pkg/deliver/answer.go"}
	calls, waits := source{t, "internal/api/limits.go"}, source{t, "internal/api/places.go"}
	minPassword := source{t, "pkg/consoleweb/access.go"}.number("minPassword")
	passwords, readings := source{t, "pkg/consoleweb/password.go"}, source{t, "pkg/consoleweb/readings.go"}
	joining := source{t, "duetime.go"}.span(`lookingAfter = (.+)`)
	wait := source{t, "pkg/schedule/client.go"}.span(`cmp\.Or\(c\.IndexWait, (.+?)\)`)
	for _, c := range []struct{ doc, says string }{
		{apiPage, fmt.Sprintf("| message | %d MiB, decompressed |", calls.number("maxMessage")>>20)},
		{apiPage, fmt.Sprintf("| tasks in one call, tasks of a page | %s |", grouped(task.MaxPerCall))},
		{apiPage, fmt.Sprintf("or up to %s: all or none", grouped(task.MaxPerCall))},
		{apiPage, fmt.Sprintf("| answer | %d MiB:", calls.number("maxAnswer")>>20)},
		{apiPage, fmt.Sprintf("A payload of more than %d values, or with lists and objects more than %d deep",
			calls.number("maxPayloadValues"), calls.number("maxPayloadDepth"))},
		{apiPage, fmt.Sprintf("| time of a call | %s, a preview %s,", calls.span(`callTimeout\s+= (.+?)\s+//`), calls.span(`previewTimeout\s+= (.+?)\s+//`))},
		{apiPage, fmt.Sprintf("| wait of `AwaitDue` | %s to %s, by default %s; %d calls wait at a time, %d of one token |", calls.span(`minAwait\s+= (.+?)\s+//`),
			calls.span(`maxAwait\s+= (.+?)\s+//`), calls.span(`defaultAwait\s+= (.+?)\s+//`), waits.number("ownersWaits"), waits.number("callerOwnersWaits"))},
		{apiPage, fmt.Sprintf("| streams of one process | %s, %d of one token,", grouped(calls.number("maxWatches")),
			calls.number("maxCallerWatches"))},
		{apiPage, fmt.Sprintf("`make up` serves the API at `http://127.0.0.1:%s`", source{t, "scripts/up"}.text(`api=\$\{UP_API_PORT:-(\d+)\}`))},
		{apiPage, fmt.Sprintf("at `http://%s`, to calls with the header `Authorization: Bearer %s`",
			source{t, "docker-compose.yml"}.text(`ports: \["([0-9.]+:8091):8091"\]`), source{t, "docker-compose.yml"}.text(`API_TOKEN:-(.+?)\}`))},
		{architecture, fmt.Sprintf("waits for its put for at most %s, and %s again for each %d tasks", wait, wait, put.number("tasksPerWait"))},
		{architecture, fmt.Sprintf("Where %s tasks wait to be put, callers in bulk first wait for room, for at most %s, and %s again for each %d tasks",
			grouped(queue.number("maxQueuedTasks")), wait, wait, queue.number("tasksPerRoomWait"))},
		{architecture, fmt.Sprintf("within the lead (%s to thrice that; of a crowd, within %s)", spelt(cfg.Event.Lead), spelt(protocol.MaxLead))},
		{architecture, fmt.Sprintf("A hint published up to %s early", spelt(3*cfg.Event.Lead))},
		{architecture, fmt.Sprintf("Where many are due within %s, their hints leave as early, up to %s:", spelt(protocol.MaxLead),
			grouped(source{t, "internal/dispatch/crowd.go"}.number("maxAheadHints")))},
		{architecture, fmt.Sprintf("the session's lock wait (%s)", source{t, "internal/store/open.go"}.span(`cmp\.Or\(o\.LockWait, (.+?)\)`))},
		{architecture, fmt.Sprintf("with the default of worker.late (%s)", spelt(cfg.Worker.Late))},
		{architecture, fmt.Sprintf("what nobody has taken for %s more is anybody's", look.span(`anybodysAfter\s+= (.+?)\s+//`))},
		{architecture, fmt.Sprintf("a degraded queue is looked for each %s", degraded.span(`degradedInterval\s+= (.+?)\s+//`))},
		{architecture, fmt.Sprintf("From %d workers of a queue on, each looks less often and further ahead; from %d on",
			2*degraded.number("membersPerRound"), degraded.number("membersPerRound")*degraded.number("maxRounds"))},
		{architecture, fmt.Sprintf("%s after the last such task hints are trusted again", degraded.span(`calm\s+= (.+?)\s+//`))},
		{architecture, fmt.Sprintf("is ready after %s", joining)},
		{operating, fmt.Sprintf("is ready after %s", joining)},
		{operating, fmt.Sprintf("in pages of %s; while tasks run, in pages of %d with sleeps",
			grouped(source{t, "internal/reconcile/sweep.go"}.number("page")),
			source{t, "internal/reconcile/rehome.go"}.number("rehomeSmall"))},
		{operating, fmt.Sprintf("somebody had locked for %s",
			source{t, "internal/reconcile/operations.go"}.span(`operationWait\s+= (.+?)\s+//`))},
		{configPage, fmt.Sprintf("up to %s where many are due at once", protocol.MaxLead)},
		{configPage, fmt.Sprintf("A password has %d characters or more", minPassword)},
		{consolePage, fmt.Sprintf("the password of %d characters or more", minPassword)},
		{consolePage, fmt.Sprintf("At most %d sign-ins wait, %d of one address or IPv6 subnet", passwords.number("maxSignIns"),
			passwords.number("maxNetworkSignIns"))},
		{consolePage, fmt.Sprintf("until readings are %s ahead of their tenth", readings.span(`readingTimeout\s+= (.+)`))},
		{consolePage, fmt.Sprintf("Figures for %d addresses are kept", readings.number("maxReadings"))},
		{guide, fmt.Sprintf("| payload | %d KiB of JSON |", task.MaxPayload>>10)},
		{guide, fmt.Sprintf("| owner, kind, queue | %d bytes |", same(t, task.MaxOwner, task.MaxKind, task.MaxQueue))},
		{guide, fmt.Sprintf("| subject | %d bytes |", task.MaxSubject)},
		{guide, fmt.Sprintf("| key | %d bytes |", task.MaxKey)},
		{guide, fmt.Sprintf("| due | at most %d years ahead", task.MaxAhead/(365*24*time.Hour))},
		{guide, fmt.Sprintf("| tasks in one call | %s |", grouped(task.MaxPerCall))},
		{guide, fmt.Sprintf("The `*schedule.Tx` also has %s, each for up to %s tasks", manyOfTx(t), grouped(task.MaxPerCall))},
		{guide, fmt.Sprintf("default %d |", task.NewKind[int]("test").Info().MaxAttempts)},
		{guide, fmt.Sprintf("the %d attempts that a kind has", task.NewKind[int]("test").Info().MaxAttempts)},
		{guide, fmt.Sprintf("of up to %s, 2 s, 4 s … %s", spelt(task.DefaultBackoff.Min), spelt(task.DefaultBackoff.Max))},
		{guide, fmt.Sprintf("| timeout of a kind | %s to %d h,", spelt(task.MinTimeout), task.MaxTimeout/time.Hour)},
		{guide, fmt.Sprintf("`worker.handler_timeout` (%s) bounds", spelt(cfg.Worker.HandlerTimeout))},
		{guide, fmt.Sprintf("`worker.drain` (%s) is how long", source{t, "internal/worker/config.go"}.span(`cmp\.Or\(c\.Drain, (.+?)\)`))},
		{guide, fmt.Sprintf("A hook has %s for an event. While %s events wait,", hooks.span(`hookTimeout\s+= (.+?)\s+//`),
			grouped(hooks.number("maxQueuedEvents")))},
		{push, fmt.Sprintf("After %d failures in a row", breaker.number("failuresToOpen"))},
		{push, fmt.Sprintf("and each %s one task tries", breaker.span(`breakerOpen\s+= (.+?)\s+//`))},
		{push, fmt.Sprintf("from %s to %s, so it comes", breaker.span(`minDelay\s+= (.+?)\s+//`),
			spelt(2*time.Duration(breaker.find(`maxDelay\s+= (.+?)\s+//`))))},
		{push, fmt.Sprintf("up to %d bytes stand in the task's last error", answer.number("maxExcerpt"))},
		{push, fmt.Sprintf("At most %d KiB of an answer are read", answer.number("maxBodyBytes")>>10)},
		{push, fmt.Sprintf("for one request, %s by default", deliver.DefaultTimeout)},
		{push, fmt.Sprintf("(%d by default), half as many retries", cfg.Worker.Concurrency)},
		{contract, fmt.Sprintf("within its interval (%s)", spelt(cfg.Daemon.Interval))},
		{contract, fmt.Sprintf("by default %d |", task.NewKind[int]("test").Info().MaxAttempts)},
		{contract, fmt.Sprintf("JSON of at most %d KiB", task.MaxPayload>>10)},
		{contract, fmt.Sprintf("up to %s after the first failure, 2 s after the second, and so on, up to %s", spelt(task.DefaultBackoff.Min),
			spelt(task.DefaultBackoff.Max))},
		{operating, fmt.Sprintf("between MySQL and Redis after %s", source{t, "pkg/console/drift.go"}.span(`recheckDelay\s+= (.+?)\s+//`))},
		{operating, fmt.Sprintf("a row of `duetime_processes` every %s", source{t, "internal/presence/presence.go"}.span(`reportInterval = (.+?)\s+//`))},
		{operating, fmt.Sprintf("no report for %s: it crashed", source{t, "internal/store/processes.go"}.span(`ProcessAlive = (.+)`))},
		{operating, fmt.Sprintf("overdue for more than %s", source{t, "pkg/console/verify.go"}.span(`stuckAfter = (.+)`))},
		{whyPage, fmt.Sprintf("the %s tasks that are due for longest", grouped(source{t, "internal/store/waiting.go"}.number("maxOldest")))},
		{whyPage, fmt.Sprintf("of what ended lately, %s tasks", grouped(source{t, "pkg/console/internal/views/ended.go"}.number("endedRows")))},
		{whyPage, fmt.Sprintf("the newest %s dead tasks", grouped(source{t, "pkg/console/facts.go"}.number("newestDead")))},
		{whyPage, fmt.Sprintf("counts as silent %s after", source{t, "internal/store/processes.go"}.span(`ProcessAlive = (.+)`))},
	} {
		text, err := os.ReadFile(c.doc)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), c.says) {
			t.Errorf("%s does not say, as the code has it: %s", c.doc, c.says)
		}
	}
}

// manyOfTx lists the methods of a transaction for many tasks. The client must have none of them.
func manyOfTx(t *testing.T) string {
	t.Helper()
	var names []string
	for m := range reflect.TypeFor[*schedule.Tx]().Methods() {
		if strings.HasSuffix(m.Name, "Many") {
			names = append(names, "`"+m.Name+"`")
		}
	}
	client := reflect.TypeFor[*duetime.Client]()
	for _, name := range append(slices.Clone(names), "`ShiftOwner`", "`ListOwner`") {
		if _, has := client.MethodByName(strings.Trim(name, "`")); has {
			t.Errorf("the client has %s, which the guide says of the transaction only", name)
		}
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// TestGuideStarts holds the section Start of the guide to code that compiles, and its configuration to what Open takes.
func TestGuideStarts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, start, _ := strings.Cut(string(text), "\n## Start\n")
	start, _, _ = strings.Cut(start, "\n## ")
	block := func(language string) string {
		m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(start)
		if m == nil {
			t.Fatalf("the section Start has no block of %s", language)
		}
		return m[1]
	}
	example, err := os.ReadFile("pkg/embedded/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(block("go")) {
		if !strings.Contains(string(example), "\t"+line) {
			t.Errorf("pkg/embedded/example_test.go has no line %s", line)
		}
	}
	file := filepath.Join(t.TempDir(), "duetime.yaml")
	if err := os.WriteFile(file, []byte(block("yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := duetime.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := duetime.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// source is a file from which a figure is read that no package exports.
type source struct {
	t    *testing.T
	file string
}

// number evaluates the constant of this name.
func (s source) number(constant string) int64 {
	s.t.Helper()
	return s.find(`(?m)^\s*(?:const )?` + constant + `\s+= (.+?)(?:\s*//.*)?$`)
}

// span evaluates the match of the pattern's group, and formats it as the docs do.
func (s source) span(pattern string) string {
	s.t.Helper()
	return spelt(time.Duration(s.find("(?m)" + pattern)))
}

func (s source) find(pattern string) int64 {
	s.t.Helper()
	text := s.text(pattern)
	e, err := parser.ParseExpr(text)
	if err != nil {
		s.t.Fatalf("%s: %s: %v", s.file, text, err)
	}
	return s.value(e)
}

// text returns the match of the pattern's group.
func (s source) text(pattern string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		s.t.Fatalf("%s has no %s", s.file, pattern)
	}
	return string(m[1])
}

// value evaluates products of numbers and units of time.
func (s source) value(e ast.Expr) int64 {
	s.t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
			return n
		}
	case *ast.SelectorExpr:
		if d, known := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute}[e.Sel.Name]; known {
			return int64(d)
		}
	case *ast.BinaryExpr:
		if e.Op == token.MUL {
			return s.value(e.X) * s.value(e.Y)
		}
	}
	s.t.Fatalf("%s: %T can't be evaluated", s.file, e)
	return 0
}

// spelt formats a duration as the docs do: 50 ms, 2 s, 10 min.
func spelt(d time.Duration) string {
	switch {
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	default:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
}

// grouped formats a number as the docs do: 10,000.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// same wants all limits that one line of the docs gives to be equal.
func same(t *testing.T, limits ...int) int {
	t.Helper()
	for _, l := range limits {
		if l != limits[0] {
			t.Errorf("limits %v are told in one line", limits)
		}
	}
	return limits[0]
}

// Each metric has the label namespace: a runbook's command finds it by its name, and not by a name that a blank or other labels
// follow.
func TestRunbooksFindMetrics(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`/metrics \| grep (?:-\w+ )?('[^']*'|\S+)`).FindAllStringSubmatch(string(text), -1) {
			found++
			if pattern := strings.Trim(m[1], "'"); strings.Contains(pattern, "{") || strings.HasSuffix(pattern, " ") {
				t.Errorf("%s: no line of the metrics has %q", page, pattern)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands were found", found)
	}
}
