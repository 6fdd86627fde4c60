package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // of what is built
	FailedBuild string
}

// failure is a test that failed, or, without a test, a package that did: it panicked, timed out, left goroutines.
type failure struct {
	leg  leg
	pkg  string
	test string // without parts
}

// saysFail is what a test binary prints last when tests failed. One that ends by a panic, a limit or a signal does not.
const saysFail = "FAIL\n"

// saysRace is what the race detector prints first. A race that shows once is a fault, however seldom it shows.
const saysRace = "WARNING: DATA RACE"

const modulePrefix = "github.com/duetime/duetime/"

func (f failure) String() string {
	name := strings.TrimPrefix(f.pkg, modulePrefix)
	if f.test != "" {
		name += " " + f.test
	}
	return name + " (" + f.leg.title + ")"
}

// timed is how long a test or a package took.
type timed struct {
	leg, name string
	wall      time.Duration
}

// result is what became of a leg.
type result struct {
	failures []failure
	broken   []string // packages that don't compile
	raced    []string // packages in which the race detector saw one
	skipped  []string
	tests    []timed

	leg     leg
	printed map[string][]string // the output of each test that runs, by package and test
}

func newResult(l leg) *result {
	return &result{leg: l, printed: map[string][]string{}}
}

// read takes the events of a `go test -json` to their end, and shows to out what go test would show: a line a package, and
// all that failing tests printed.
func (r *result) read(events io.Reader, out screen) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil { // something else wrote to the same place
			out.say("%s\n", lines.Text())
			continue
		}
		r.take(e, out)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the output of go test: %w", err)
	}
	return nil
}

func (r *result) take(e event, out screen) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		out.say("%s", e.Output)
	case "output":
		if strings.Contains(e.Output, saysRace) && !slices.Contains(r.raced, e.Package) {
			r.raced = append(r.raced, e.Package)
		}
		r.printed[key] = append(r.printed[key], e.Output)
	case "skip", "pass":
		r.passed(e, out)
		delete(r.printed, key)
	case "fail":
		r.fail(e, out)
		delete(r.printed, key)
	}
}

// passed notes a test or a package that did not fail.
func (r *result) passed(e event, out screen) {
	switch {
	case e.Test == "":
		r.printVerdict(e, out)
	case e.Action == "skip":
		r.skipped = append(r.skipped, e.Package+" "+e.Test)
	}
	r.time(e)
}

func (r *result) time(e event) {
	if e.Test != "" && !strings.Contains(e.Test, "/") {
		r.tests = append(r.tests, timed{r.leg.title, e.Package + " " + e.Test, time.Duration(e.Elapsed * float64(time.Second))})
	}
}

// printVerdict shows the line that go test ends a package with.
func (r *result) printVerdict(e event, out screen) {
	for _, line := range r.printed[e.Package+" "] {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "FAIL\t") {
			out.say("%s", line)
		}
	}
}

func (r *result) fail(e event, out screen) {
	switch {
	case e.Test == "":
		r.failPackage(e, out)
	case !strings.Contains(e.Test, "/"):
		r.failures = append(r.failures, failure{r.leg, e.Package, e.Test})
	}
	for _, line := range r.printed[e.Package+" "+e.Test] {
		out.say("%s", line)
	}
	r.time(e)
}

// failPackage notes a package that failed. Where no test says why, or some did not run because the process ended early, all
// of them have failed.
func (r *result) failPackage(e event, out screen) {
	if e.FailedBuild != "" {
		r.broken = append(r.broken, e.Package)
		return
	}
	of := func(f failure) bool { return f.pkg == e.Package }
	if !slices.ContainsFunc(r.failures, of) || !slices.Contains(r.printed[e.Package+" "], saysFail) {
		r.failures = append(slices.DeleteFunc(r.failures, of), failure{r.leg, e.Package, ""})
	}
	for key, lines := range r.printed { // tests that were running then
		if name, test, _ := strings.Cut(key, " "); name == e.Package && test != "" {
			out.say("%s", strings.Join(lines, ""))
			delete(r.printed, key)
		}
	}
}
