package repo_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	benchmarks = "docs/BENCHMARKS.md"
	rabbit     = "RabbitMQ, a queue per delay" // rows of benchmarks
	levels     = "RocketMQ, delay levels"
	timers     = "RocketMQ, timer messages"
)

// TestPagesQuoteTheLastRuns compares the figures that README.md and docs/COMPARED.md quote with the pages that the benchmarks and the fault
// suite write: after a run that changes a figure, the sentence that quotes it is red. README.zh-CN.md has README.md's numbers, as
// TestReadmesSayTheSame holds. A figure that is not in this table is not checked, so whoever quotes one adds it.
func TestPagesQuoteTheLastRuns(t *testing.T) {
	t.Parallel()
	for page, quotes := range map[string][]string{
		"README.md":        slices.Concat(readmeSpeeds(t), readmeFaults(t)),
		"docs/COMPARED.md": slices.Concat(comparedCells(t), comparedCosts(t)),
	} {
		text := strings.Join(strings.Fields(textOf(t, page)), " ") // a sentence may go over lines
		for _, quote := range quotes {
			if !strings.Contains(text, quote) {
				t.Errorf("%s does not say %q", page, quote)
			}
		}
	}
}

func readmeSpeeds(t *testing.T) []string {
	t.Helper()
	accept, move := tableBelow(t, "Accepting"), tableBelow(t, "Moving")
	burst := tableBelow(t, "Burst")
	done := func(row string) string { return burst.quote(row, "effect each (s)") }
	empty := func(row string) string { return burst.quote(row, "empty handler, tasks (/s)") }
	one := func(row string) string { return accept.quote(row, "one by one, 64 callers (/s)") }
	bulk := func(row string) string { return accept.quote(row, "in bulk, 8 callers (/s)") }
	moved := func(row string) string { return move.quote(row, "one by one, 32 callers (/s)") }
	lag := tableBelow(t, "Firing lag")
	committed := func(row string) string { return lag.quote(row, "effect committed p99 (ms)") }
	standing := tableBelow(t, "Standing cost")
	size := func(row string) string { return standing.quote(row, "Redis per pending task, one an owner (B)") }
	return []string{
		fmt.Sprintf("started milliseconds after they are due (p50 %s, p99 %s ms)", lag.quote("duetime", "start p50 (ms)"),
			lag.quote("duetime", "start p99 (ms)")),
		fmt.Sprintf("MySQL %s with its binary log, PostgreSQL %s, RabbitMQ %s.", version(t, "MySQL"), version(t, "PostgreSQL"), version(t, "RabbitMQ")),
		fmt.Sprintf("p50 / p99 | %s ms | RabbitMQ %s, river %s, BullMQ %s ms, which Redis' `hz` of 10 bounds (at 100 once 4.0 / 9.2 ms, on another machine); asynq, whose due times are whole seconds, %s early |",
			startLag(t, "duetime"), startLag(t, rabbit), startLag(t, "river"), startLag(t, "BullMQ"), earlyOfAsynq(t)),
		fmt.Sprintf("| %s s | table scan %s, RabbitMQ %s, river %s, BullMQ %s, asynq %s s |", done("duetime"), done("table scan"), done(rabbit),
			done("river"), done("BullMQ"), done("asynq, tuned")),
		fmt.Sprintf("| %s/s | table scan %s, asynq %s, BullMQ %s, river %s/s |", one("duetime"), one("table scan"), one("asynq, tuned"),
			one("BullMQ"), one("river")),
		fmt.Sprintf("| %s B | asynq %s, BullMQ %s B |", redisSizes(t), size("asynq, tuned"), size("BullMQ")),
		fmt.Sprintf("| %s | table scan %s; RabbitMQ %s; river %s; BullMQ %s; asynq %s |", killed(t, "duetime"), killed(t, "table scan"),
			killed(t, rabbit), killed(t, "river"), killed(t, "BullMQ"), killed(t, "asynq, tuned")),
		fmt.Sprintf("bulk inserts (table scan %s/s, river %s, asynq %s, ours %s)", bulk("table scan"), bulk("river"), bulk("asynq, tuned"), bulk("duetime")),
		fmt.Sprintf("moves (BullMQ %s/s in Redis, table scan %s, ours %s in MySQL)", moved("BullMQ"), moved("table scan"), moved("duetime")),
		fmt.Sprintf("(RocketMQ %s/s by fixed delays and %s by timers, river %s, ours %s)", empty(levels), empty(timers), empty("river"),
			empty("duetime")),
		fmt.Sprintf("(RabbitMQ commits 99%% of them within %s ms of the due time, duetime within %s)", committed(rabbit), committed("duetime")),
	}
}

func readmeFaults(t *testing.T) []string {
	t.Helper()
	faults := source{t, "docs/FAULTS.md"}
	healed := func(row int, fault string) string {
		return faults.text(fmt.Sprintf(`(?m)^\| %d \|.*%s ([\d.]+) s \(`, row, fault))
	}
	table, _, _ := strings.Cut(textOf(t, faults.file), "\n| | **all** |")
	var worst float64
	for _, m := range regexp.MustCompile(` ([\d.]+) s \(\d+\)`).FindAllStringSubmatch(table, -1) {
		worst = max(worst, parsed(t, m[1]))
	}
	return []string{
		fmt.Sprintf("breaks a whole deployment in %d ways", len(regexp.MustCompile(`(?m)^\| [1-9]\d* \|`).FindAllString(table, -1))),
		"never asked for: " + faults.text(`(?m)^\| \| \*\*all\*\* \| \*\*\d+\*\* \| \*\*\d+\*\* \| \*\*(0)\*\*(?: \| \*\*0\*\*){6} \|`) + " in each row",
		fmt.Sprintf("without a fault, lag was %s ms (p50) and %s ms (p99)", faults.text(`\| 0 \| none \|.* (\d+) / \d+ ms \|`),
			faults.text(`\| 0 \| none \|.* \d+ / (\d+) ms \|`)),
		fmt.Sprintf("(ZooKeeper session 6 s) | %s s |", healed(1, "idle")),
		fmt.Sprintf("| FLUSHALL · Redis killed, back empty | %s · %s s |", healed(7, "FLUSHALL"), healed(6, "empty")),
		fmt.Sprintf("(Kafka session 6 s) | %s s |", healed(14, "before the commit")),
		fmt.Sprintf("| MySQL killed · connections cut inside COMMIT | %s · %s s |", healed(16, "MySQL killed"), healed(16, "cut inside COMMIT")),
		fmt.Sprintf("one way and both | at most %s s |", healed(22, "slowest of .*")),
		fmt.Sprintf("its own tasks | %s · %s s |", healed(12, "wiped"), healed(82, "its own tasks")),
		fmt.Sprintf("| the worst: 100,000 tasks due at one millisecond beside 1,000,000 pending | %.1f s |", worst),
		fmt.Sprintf("beside 1,000,000 pending | %s s |", healed(24, "100,000 at once")),
	}
}

func comparedCells(t *testing.T) []string {
	t.Helper()
	move := tableBelow(t, "Moving")
	moved := func(row string) string { return move.quote(row, "one by one, 32 callers (/s)") }
	return []string{
		tableBelow(t, "Firing lag").quote(rabbit, "start p50 (ms)") + " ms at the median, without another part",
		"| 0 / 0, " + tableBelow(t, "Targets").quote("kill -9 of the worker, all done after the restart, s, in any run", "value") +
			" s in the worst of three runs |",
		"A million entries were back after " + tableBelow(t, "Recovery").quote("duetime", "whole (s)") + " s |",
		fmt.Sprintf("| %s with a rescue after 3 s;", strings.Replace(killed(t, "river"), ",", " with effects in MySQL,", 1)),
		fmt.Sprintf("| asynq | Redis | %s: a lease", killed(t, "asynq, tuned")),
		fmt.Sprintf("| %s on Redis with its defaults:", killed(t, "BullMQ")),
		fmt.Sprintf("if they are quorum queues | %s |", killed(t, rabbit)),
		fmt.Sprintf("unless set otherwise | %s |", killed(t, timers)),
		fmt.Sprintf("| cron and a table | your table | %s |", killed(t, "table scan")),
		fmt.Sprintf("| the same; %s/s |", moved("duetime")),
		fmt.Sprintf("| one call (`changeDelay`); %s/s |", moved("BullMQ")),
		fmt.Sprintf("| one statement; %s/s |", moved("table scan")),
		fmt.Sprintf("| duetime | %s ms |", startLag(t, "duetime")),
		fmt.Sprintf("| river | %s ms (", startLag(t, "river")),
		fmt.Sprintf("| asynq | %s early, p99 %s ms,", earlyOfAsynq(t), tableBelow(t, "Firing lag").quote("asynq, tuned", "start p99 (ms)")),
		fmt.Sprintf("| BullMQ | %s ms at Redis' default", startLag(t, "BullMQ")),
		fmt.Sprintf("| RabbitMQ, a queue per delay | %s ms;", startLag(t, rabbit)),
		fmt.Sprintf("| RocketMQ, timer messages | %s ms with slots", startLag(t, timers)),
	}
}

func comparedCosts(t *testing.T) []string {
	t.Helper()
	scaling := source{t, "docs/SCALING.md"}
	var rows []float64
	for _, owners := range []string{"1", "10", "1000"} {
		rows = append(rows, parsed(t, scaling.text(`MySQL, a pending row, `+owners+` an owner \|.*; (\d+) B of the file`)))
	}
	accept, move, burst := tableBelow(t, "Accepting"), tableBelow(t, "Moving"), tableBelow(t, "Burst")
	bulk := func(row string) string { return accept.quote(row, "in bulk, 8 callers (/s)") }
	moved := func(row string) string { return move.quote(row, "one by one, 32 callers (/s)") }
	empty := func(row string) string { return burst.quote(row, "empty handler, tasks (/s)") }
	standing, lag := tableBelow(t, "Standing cost"), tableBelow(t, "Firing lag")
	size := func(row string) string { return standing.quote(row, "Redis per pending task, one an owner (B)") }
	idle := func(row string) string { return standing.quote(row, "idle, worker (% of a core)") }
	committed := func(row string) string { return lag.quote(row, "effect committed p99 (ms)") }
	return []string{
		fmt.Sprintf("%s B in MySQL ([SCALING](SCALING.md#sizes)) and %s B in Redis.", between(rows), redisSizes(t)),
		fmt.Sprintf("A finished row of %s B, and %s B for each move", scaling.text(`MySQL, a finished row \|.*; (\d+) B of the file`),
			scaling.text(`MySQL, a line of the history \|.*; (\d+) B of the file`)),
		fmt.Sprintf("asynq takes %s B in Redis and BullMQ %s B;", size("asynq, tuned"), size("BullMQ")),
		fmt.Sprintf("in a transaction with a row of the service it makes %s.", accept.quote("duetime", "in InTx with a row of one's own, 64 callers (/s)")),
		fmt.Sprintf("in bulk (%s, %s and %s/s, duetime %s)", bulk("table scan"), bulk("river"), bulk("asynq, tuned"), bulk("duetime")),
		fmt.Sprintf("moved more (%s and %s/s, duetime %s)", moved("BullMQ"), moved("table scan"), moved("duetime")),
		fmt.Sprintf("(%s/s by delay levels, %s by timer messages, and %s; duetime %s)", empty(levels), empty(timers), empty("river"), empty("duetime")),
		fmt.Sprintf("99%% of the effects within %s ms of the due time, duetime within %s.", committed(rabbit), committed("duetime")),
		fmt.Sprintf("took %s%% of a core together", tableBelow(t, "Targets").quote("idle, event, worker and daemon, % of a core", "value")),
		fmt.Sprintf("MySQL was %s. PostgreSQL %s, RabbitMQ %s and Redis %s were", version(t, "MySQL"), version(t, "PostgreSQL"),
			version(t, "RabbitMQ"), version(t, "Redis")),
		fmt.Sprintf("BullMQ %s%%, river %s%% and asynq %s%%;", idle("BullMQ"), idle("river"), idle("asynq, tuned")),
	}
}

// startLag is the row's lag to the handler's start: "0.8 / 14".
func startLag(t *testing.T, row string) string {
	t.Helper()
	lag := tableBelow(t, "Firing lag")
	return lag.quote(row, "start p50 (ms)") + " / " + lag.quote(row, "start p99 (ms)")
}

// earlyOfAsynq is its share of early tasks.
func earlyOfAsynq(t *testing.T) string {
	t.Helper()
	const tasks = 500 * 20 // as the page says above the table
	return fmt.Sprintf("%.0f%%", tableBelow(t, "Firing lag").value("asynq, tuned", "early")/tasks*100)
}

// killed is what the row's worker lost and doubled, and when all was done: "0 / 165, 20 s".
func killed(t *testing.T, row string) string {
	t.Helper()
	kill := tableBelow(t, "kill -9")
	return fmt.Sprintf("%.0f / %.0f, %s s", kill.value(row, "lost"), kill.value(row, "doubled"), kill.quote(row, "last effect after the restart (s)"))
}

// redisSizes is what one of duetime's pending tasks takes: the smallest and the largest figure of the page.
func redisSizes(t *testing.T) string {
	t.Helper()
	standing, growth := tableBelow(t, "Standing cost"), tableBelow(t, "Growth")
	sizes := []float64{
		standing.value("duetime", "Redis per pending task, one an owner (B)"),
		standing.value("duetime", "Redis per pending task, two an owner (B)"),
	}
	for _, pending := range []string{"10k", "100k", "1M", "10M"} {
		sizes = append(sizes, growth.value("duetime, "+pending+" pending", "Redis per pending task (B)"))
	}
	return between(sizes)
}

// version is the release series of a server that was measured: PostgreSQL's has one number.
func version(t *testing.T, server string) string {
	t.Helper()
	numbers := `(\d+\.\d+)`
	if server == "PostgreSQL" {
		numbers = `(\d+)`
	}
	return source{t, benchmarks}.text(`Servers:.*?` + server + ` ` + numbers)
}

func between(figures []float64) string {
	return fmt.Sprintf("%.0f to %.0f", slices.Min(figures), slices.Max(figures))
}

// benchTable has the cells of one table of the benchmarks' page, by row and column.
type benchTable struct {
	t     *testing.T
	title string
	cells map[[2]string]string
}

func tableBelow(t *testing.T, title string) benchTable {
	t.Helper()
	_, text, found := strings.Cut(textOf(t, benchmarks), "\n### "+title+"\n")
	if !found {
		t.Fatalf("%s has no table %s", benchmarks, title)
	}
	text, _, _ = strings.Cut(text, "\n#")
	b := benchTable{t, title, map[[2]string]string{}}
	var head []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if head == nil {
			head = cells
		}
		for i, cell := range cells[:min(len(cells), len(head))] {
			b.cells[[2]string{strings.ReplaceAll(cells[0], "*", ""), head[i]}] = cell
		}
	}
	return b
}

// value is the cell's figure: of several runs the median, which stands first.
func (b benchTable) value(row, column string) float64 {
	b.t.Helper()
	m := regexp.MustCompile(`^\**(-?[\d,]+(?:\.\d+)?)`).FindStringSubmatch(b.cells[[2]string{row, column}])
	if m == nil {
		b.t.Fatalf("%s, %s: there is no figure in row %q, column %q", benchmarks, b.title, row, column)
	}
	return parsed(b.t, m[1])
}

// quote rounds as the pages do: to tenths below 10, to whole numbers below 1,000, then to two digits.
func (b benchTable) quote(row, column string) string {
	b.t.Helper()
	switch v := b.value(row, column); {
	case v < 10:
		return fmt.Sprintf("%.1f", math.Round(v*10)/10)
	case v < 1000:
		return fmt.Sprintf("%.0f", v)
	default:
		unit := math.Pow(10, math.Floor(math.Log10(v))-1)
		return grouped(int64(math.Round(v/unit) * unit))
	}
}

func parsed(t *testing.T, figure string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.ReplaceAll(figure, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
