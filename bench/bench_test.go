package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// bench is one call of the benchmark.
type bench struct {
	what    string
	quick   bool
	runs    int
	scale   float64 // of all counts; below 1 only to try the benchmark itself
	writes  bool    // the docs
	folder  string
	driver  string // the binary
	results *report.Results
	began   time.Time
	until   time.Time // when the present work's time is up
	left    int       // systems of the present work that have not begun yet
	repeats int       // runs that a world makes by itself: all, or one of a round
	round   int       // rounds that were made before
}

// work is one of the things that are measured.
type work struct {
	name string
	// budget is the work's share of the hour. A main system always has all its runs and every other one its first;
	// the others' further runs are made while there is time.
	budget time.Duration
	quick  []string // the systems of a quick call
	with   func(system) bool
	do     func(*world)
	opts   options
	apart  bool // no part of a whole call
	// steps are what a work is made of whose systems take turns: those named, and the parts alone, whose steps are the
	// limits. They run side by side, on servers of their own, and all but one have nothing to do at a time.
	steps, parts func(*world) [][]step
	turns        []string
	// rounds are the systems, of a work without steps, that all make one run before any makes the next, on fresh servers
	// each time: too much for turns, and yet to be compared.
	rounds []string
}

// works stand in the order in which they are done. Their budgets are the table of bench/README.md.
var works = []work{
	{name: "raw", budget: time.Minute, quick: []string{report.Raw}, do: raw},
	{
		name: "accept", budget: 6 * time.Minute, quick: []string{report.Duetime, report.Asynq}, with: func(s system) bool { return s.accepts },
		opts: options{workers: 64}, steps: acceptSteps, parts: rawInserts, turns: []string{report.Duetime, report.Asynq},
	},
	{
		name: "move", budget: 3 * time.Minute, with: func(s system) bool { return s.moves },
		steps: moveSteps, parts: rawUpdates, turns: []string{report.Duetime},
	},
	{name: "standing", budget: 4 * time.Minute, with: func(s system) bool { return s.stands }, do: standing, opts: options{shards: idleShards}},
	{name: "rebuild", budget: 2 * time.Minute, with: ours, do: rebuild},
	{name: "kill", budget: 8 * time.Minute, with: bursts, do: kill, opts: options{rescue: true}},
	{name: "growth", budget: 21 * time.Minute / 2, with: func(s system) bool { return s.grows || ours(s) }, do: growth},
	{
		name: "burst", budget: 12 * time.Minute, quick: []string{report.Duetime, report.BullMQ}, with: bursts, do: burst,
		rounds: []string{report.Duetime, report.River, report.RabbitMQ, report.Scan},
	},
	{name: "lag", budget: 23 * time.Minute / 2, quick: []string{report.Duetime, report.BullMQ}, with: flows, do: lag},
	{name: "observed", budget: 3 * time.Minute, with: ours, do: observed, apart: true},
	{name: "blocked", budget: time.Minute, with: func(s system) bool { return s.rabbitmq && !s.paces }, do: blocked},
}

func ours(s system) bool { return s.name == report.Duetime }

// flows are all but the one whose head blocks: it would wait for what is pending far off.
func flows(s system) bool { return !s.rabbitmq || s.paces }

func bursts(s system) bool { return flows(s) && !s.lagOnly }

// TestBench measures what BENCH_WHAT names (all, quick, or works) of the systems that BENCH_SYSTEMS names (default: all
// of that work), BENCH_RUNS times (default 3), and prints the report; all and quick write the docs. With report it measures
// nothing and shows again what the last call has measured so far.
func TestBench(t *testing.T) {
	what := os.Getenv("BENCH_WHAT")
	if what == "" {
		t.Skip("BENCH_WHAT is not set: see bench/README.md")
	}
	if what == "report" {
		again(t)
		return
	}
	b := &bench{what: what, quick: what == "quick", runs: 3, scale: 1, began: time.Now(), results: new(report.Results)}
	fromEnv(t, "BENCH_RUNS", func(v string) (err error) { b.runs, err = strconv.Atoi(v); return err })
	fromEnv(t, "BENCH_SCALE", func(v string) (err error) { b.scale, err = strconv.ParseFloat(v, 64); return err })
	if what == onServers {
		b.folder = ownFolder(t)
		b.driver = buildDriver(t, b.folder)
		b.compareServers(t)
		return
	}
	if what == onScale {
		b.folder = ownFolder(t)
		b.driver = buildDriver(t, b.folder)
		b.measureScale(t)
		return
	}
	if what == onLife {
		b.folder = ownFolder(t)
		b.measureLife(t)
		return
	}
	todo := b.todo(t)
	b.results.Whole = what == "all" && os.Getenv("BENCH_SYSTEMS") == ""
	b.writes = (b.results.Whole || b.quick) && b.scale == 1 && b.runs == 3
	if b.writes { // known before the hour, not after it
		_, err := os.Stat("../docs/BENCHMARKS.md")
		pipelinetest.Must(t, err)
	}
	b.folder = ownFolder(t)
	if b.results.Whole && b.scale == 1 {
		roomy(t, b.folder)
	}
	b.driver = buildDriver(t, b.folder)
	b.until = time.Now()
	for _, w := range todo {
		b.until = b.until.Add(w.budget)
		b.do(t, w)
	}
	b.report(t)
}

// todo are the works that are asked for.
func (b *bench) todo(t *testing.T) (todo []work) {
	t.Helper()
	for name := range strings.SplitSeq(os.Getenv("BENCH_SYSTEMS"), ",") {
		if name != "" && !slices.ContainsFunc(systems, func(s system) bool { return s.name == name }) {
			t.Fatalf("BENCH_SYSTEMS: there is no system %q", name)
		}
	}
	switch b.what {
	case "all":
		return slices.DeleteFunc(slices.Clone(works), func(w work) bool { return w.apart })
	case "quick":
		return slices.DeleteFunc(slices.Clone(works), func(w work) bool { return w.quick == nil })
	}
	for name := range strings.SplitSeq(b.what, ",") {
		if !slices.ContainsFunc(works, func(w work) bool { return w.name == name }) {
			t.Fatalf("there is no work %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(works), func(w work) bool { return !slices.Contains(strings.Split(b.what, ","), w.name) })
}

// again shows what was measured.
func again(t *testing.T) {
	t.Helper()
	r, err := report.Load(filepath.Join(folderName(), "results.json"))
	pipelinetest.Must(t, err)
	fmt.Println(r.Markdown())
	if r.Whole {
		pipelinetest.Must(t, r.Write(".."))
	}
}

func fromEnv(t *testing.T, name string, take func(string) error) {
	t.Helper()
	if v := os.Getenv(name); v != "" {
		pipelinetest.Must(t, take(v))
	}
}

// chosen are the systems of a work.
func (b *bench) chosen(w work) []system {
	if w.with == nil {
		return []system{parts}
	}
	names := os.Getenv("BENCH_SYSTEMS")
	return slices.DeleteFunc(slices.Clone(systems), func(s system) bool {
		switch {
		case !w.with(s):
			return true
		case names != "":
			return !slices.Contains(strings.Split(names, ","), s.name)
		}
		return b.quick && !slices.Contains(w.quick, s.name)
	})
}

// parts are what duetime is made of.
var parts = system{name: report.Raw, title: "raw", redis: true}

// do measures one work: first of the systems that take turns or go round, then of one after the other.
func (b *bench) do(t *testing.T, w work) {
	t.Helper()
	chosen := b.chosen(w)
	together := func(s system) bool { return slices.Contains(w.turns, s.name) || slices.Contains(w.rounds, s.name) }
	rest := slices.DeleteFunc(slices.Clone(chosen), together)
	if len(rest) < len(chosen) {
		b.together(t, w, slices.DeleteFunc(chosen, func(s system) bool { return !together(s) }))
	}
	if w.steps != nil {
		w.do = func(one *world) {
			steps := w.steps(one)
			one.repeat(func(int) { takeTurns(steps) })
		}
	}
	b.repeats, b.round = b.runs, 0
	for i, s := range rest {
		b.left = len(rest) - i - 1
		if s.spare && time.Since(b.began) > longest {
			b.results.Note("For want of time not measured: %s of %s.", w.name, s.title)
			continue
		}
		b.single(t, w, s)
	}
	b.save(t)
}

// together makes all runs of systems that take turns or go round.
func (b *bench) together(t *testing.T, w work, systems []system) {
	t.Helper()
	b.repeats = 1
	for b.round = range b.runs {
		if w.steps != nil {
			b.inTurns(t, w, systems)
			continue
		}
		for _, s := range systems {
			b.single(t, w, s)
		}
	}
}

// single measures a work of one system on fresh servers.
func (b *bench) single(t *testing.T, w work, s system) {
	t.Helper()
	b.measure(t, w.name+"/"+s.name, w.name+" of "+s.name, func(t *testing.T) { w.do(b.open(t, s, w.opts)) })
}

// inTurns is one run of systems that take turns, beside the parts alone.
func (b *bench) inTurns(t *testing.T, w work, systems []system) {
	t.Helper()
	b.measure(t, w.name+"/in turns", w.name+" in turns", func(t *testing.T) {
		all := [][][]step{w.parts(b.open(t, parts, w.opts))}
		for _, s := range systems {
			all = append(all, w.steps(b.open(t, s, w.opts)))
		}
		takeTurns(all...)
	})
}

// measure does something on fresh servers. What fails is told in the report.
func (b *bench) measure(t *testing.T, name, title string, do func(*testing.T)) {
	t.Helper()
	began := time.Now()
	ok := t.Run(name, do)
	t.Logf("%s: %v", title, time.Since(began).Round(100*time.Millisecond))
	if !ok && !slices.Contains(b.results.Failed, title) {
		b.results.Failed = append(b.results.Failed, title)
	}
}

// longest is when a call begins to leave out what people build by hand, so as to end within the hour.
const longest = 55 * time.Minute

// save keeps all that was measured so far.
func (b *bench) save(t *testing.T) {
	t.Helper()
	b.results.Circumstances = circumstances(t, "bench/run "+b.what, time.Since(b.began))
	b.results.Systems = nil
	for _, s := range systems {
		b.results.Systems = append(b.results.Systems, report.System{Name: s.name, Title: s.title, Settings: s.settings})
	}
	pipelinetest.Must(t, b.results.Save(filepath.Join(b.folder, "results.json")))
}

// report prints the tables and, after a call of all or of the main rows, writes them to the docs.
func (b *bench) report(t *testing.T) {
	t.Helper()
	b.results.Note(serversNote)
	if b.quick || b.scale != 1 {
		b.results.Note("A quick call, or one on a smaller scale: counts are smaller than the tables say.")
	}
	b.save(t)
	fmt.Printf("figures: %s\n\n%s\n", filepath.Join(b.folder, "results.json"), b.results.Markdown())
	if b.writes {
		pipelinetest.Must(t, b.results.Write(".."))
	}
}

// count scales a number of jobs.
func (b *bench) count(n int64) int64 {
	return max(int64(float64(n)*b.scale), min(n, 100))
}

// seconds scales a duration; a quick call has a third.
func (b *bench) seconds(d time.Duration) time.Duration {
	if b.quick {
		d /= 3
	}
	return max(time.Duration(float64(d)*b.scale), min(d, 300*time.Millisecond))
}

// pick is the number of a whole call or of a quick one.
func (b *bench) pick(all, quick int64) int64 {
	if b.quick {
		return b.count(quick)
	}
	return b.count(all)
}
