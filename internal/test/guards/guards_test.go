package guards

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	sideBySide   = 2                // test runs
	namedTimeout = 3 * time.Minute  // of the tests that a row names; a guard whose tests hang without it is caught
	wholeTimeout = 10 * time.Minute // of a package
)

// TestGuards takes the guards away. GUARDS picks those of which a field has this text. GUARDS_TESTS_OF names another
// checkout, whose product and tests are used, to compare two states of the tests: guards that it lacks are left out.
func TestGuards(t *testing.T) {
	if os.Getenv("DUETIME_GUARDS") == "" {
		return // make guards asks for it
	}
	other, picked := os.Getenv("GUARDS_TESTS_OF"), os.Getenv("GUARDS")
	root, err := filepath.Abs(cmp.Or(other, "../../.."))
	if err != nil {
		t.Fatal(err)
	}
	var chosen []guard
	for _, g := range guards {
		if !strings.Contains(strings.Join([]string{g.name, g.file, g.tests}, "\n"), picked) {
			continue
		}
		if _, err := g.removed(root); err != nil && other != "" {
			fmt.Printf("absent  %s  %s: %v\n", g.short(), g.name, err)
			continue
		}
		chosen = append(chosen, g)
	}
	r := &run{root: root, dir: t.TempDir(), compares: other != ""}
	tests := wanted(chosen)
	r.each(len(tests), func(i int) { r.control(t, tests[i]) })
	r.each(len(chosen), func(i int) { r.remove(t, chosen[i], i) })
	fmt.Printf("%d guards: %d caught, %d of these not by the tests of their rows by themselves; %d missed; %d in error\n",
		len(chosen), r.caught, r.byWhole, r.missed, len(chosen)-r.caught-r.missed)
	if other == "" && picked == "" && r.caught < floor {
		t.Errorf("%d guards are caught, want %d", r.caught, floor)
	}
}

// TestListFollowsTheProduct compares the list with the product and with docs/ARCHITECTURE.md, without removing anything.
func TestListFollowsTheProduct(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guards {
		if _, err := g.removed("../../.."); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
		for _, p := range g.packages() {
			for _, test := range p.tests {
				if name := top(test); !strings.Contains(string(text), "`"+name) {
					t.Errorf("%s: docs/ARCHITECTURE.md names no %s", g.name, name)
				}
			}
		}
	}
}

// named are tests of a package.
type named struct {
	dir   string
	tests []string
}

// packages parses the guard's tests.
func (g guard) packages() []named {
	var all []named
	for text := range strings.SplitSeq(g.tests, "; ") {
		fields := strings.Fields(text)
		all = append(all, named{fields[0], fields[1:]})
	}
	return all
}

// short names the guard's first package as the failure tables do.
func (g guard) short() string { return path.Base(g.packages()[0].dir) }

// wanted returns the tests of all guards, by package.
func wanted(all []guard) []named {
	byDir := map[string][]string{}
	for _, g := range all {
		for _, p := range g.packages() {
			byDir[p.dir] = append(byDir[p.dir], p.tests...)
		}
	}
	var out []named
	for dir, tests := range byDir {
		slices.Sort(tests)
		out = append(out, named{dir, slices.Compact(tests)})
	}
	slices.SortFunc(out, func(a, b named) int { return cmp.Compare(a.dir, b.dir) })
	return out
}

// pattern is for -run.
func (n named) pattern() string {
	parts := make([]string, len(n.tests))
	for i, test := range n.tests {
		name, subtest, found := strings.Cut(test, "/")
		if parts[i] = "^" + name + "$"; found {
			parts[i] += "/" + subtest
		}
	}
	return strings.Join(parts, "|")
}

func top(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

// removed returns the text of the guard's file without the guard.
func (g guard) removed(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, g.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), g.old); n != 1 {
		return "", fmt.Errorf("%s has %d places like %q, want one: the list has to follow the product", g.file, n, g.old)
	}
	return strings.Replace(string(text), g.old, g.new, 1), nil
}

// overlay writes the files that go test -overlay needs, and returns the name of the one that it reads.
func (g guard) overlay(root, dir string) (string, error) {
	text, err := g.removed(root)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	changed, replaced := filepath.Join(dir, filepath.Base(g.file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, g.file): changed}})
	if err != nil {
		return "", err
	}
	return replaced, os.WriteFile(replaced, list, 0o600)
}

// run is one run over the list.
type run struct {
	root, dir string
	compares  bool // with another checkout, which may lack tests

	mu                      sync.Mutex
	caught, byWhole, missed int
}

// each calls fn with 0 to n-1, some calls side by side.
func (r *run) each(n int, fn func(i int)) {
	var group errgroup.Group
	group.SetLimit(sideBySide)
	for i := range n {
		group.Go(func() error { fn(i); return nil })
	}
	_ = group.Wait()
}

// control runs tests with all guards in place: what is red then says nothing.
func (r *run) control(t *testing.T, n named) {
	if got := r.test(t.Context(), "", n.dir, n.pattern(), wholeTimeout); got.red {
		t.Errorf("%s: %s is red with all guards in place:\n%s", n.dir, got.by, got.tail())
	} else if absent := got.absent(n.tests); len(absent) > 0 && !r.compares {
		t.Errorf("%s has no test %s: the list has to follow the tests", n.dir, strings.Join(absent, ", "))
	}
}

// remove takes one guard away. Its own tests come first; if they stay green, their whole packages follow.
func (r *run) remove(t *testing.T, g guard, n int) {
	overlay, err := g.overlay(r.root, filepath.Join(r.dir, fmt.Sprint(n)))
	if err != nil {
		t.Errorf("%s: %v", g.name, err)
		return
	}
	began := time.Now()
	for _, whole := range []bool{false, true} {
		for _, p := range g.packages() {
			pattern, timeout := p.pattern(), namedTimeout
			if whole {
				pattern, timeout = ".", wholeTimeout // a hang of all tests together must not count as caught too soon
			}
			got := r.test(t.Context(), overlay, p.dir, pattern, timeout)
			switch {
			case got.unbuilt:
				t.Errorf("%s: the edit of %s doesn't compile, so that nothing was tested:\n%s", g.name, g.file, got.tail())
				return
			case got.red && whole && r.test(t.Context(), "", p.dir, "^"+got.by+"$", timeout).red:
				t.Errorf("%s: %s is red with all guards in place, too", g.name, got.by)
			case got.red:
				r.catch(g, got, whole)
				return
			}
		}
	}
	r.miss(g, time.Since(began))
}

// catch counts a guard whose absence a test has seen: one of its own, run by themselves, or any in a run of the package.
func (r *run) catch(g guard, got answer, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.caught++
	by := got.by
	if got.hung {
		by += " hung"
	}
	if whole {
		r.byWhole++
		by += " in a run of the package"
	}
	report("caught", g, by, got.took)
}

func (r *run) miss(g guard, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missed++
	report("MISSED", g, g.tests+", and all others of the package", took)
}

func report(outcome string, g guard, by string, took time.Duration) {
	fmt.Printf("%s  %-11s  %s  (%s, %.1f s)\n", outcome, g.short(), g.name, by, took.Seconds())
}

// answer is what a run of go test has said.
type answer struct {
	red     bool
	unbuilt bool
	by      string // the first test that failed, or the one that hung
	hung    bool
	took    time.Duration
	out     string
}

var (
	failed  = regexp.MustCompile(`(?m)^\s*--- FAIL: (Test\w+)`)
	hung    = regexp.MustCompile(`(?m)^panic: test timed out after .*\n\s*running tests:\n\s*(Test\w+)`)
	unbuilt = regexp.MustCompile(`(?m)\[(build|setup) failed\]$`)
)

// test runs tests of one package, with the files of an overlay if one is given.
func (r *run) test(ctx context.Context, overlay, dir, pattern string, timeout time.Duration) answer {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-v", "-overlay="+overlay,
		"-timeout", timeout.String(), "-run", pattern, "./"+dir)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), "DUETIME_GUARDS=",
		"RAPID_NOFAILFILE=true") // it would keep what is red without a guard in the package's testdata
	out, err := cmd.CombinedOutput()
	got := answer{red: err != nil, took: time.Since(began), out: string(out), by: "no test by name"}
	got.unbuilt = got.red && unbuilt.MatchString(got.out)
	if m := failed.FindStringSubmatch(got.out); m != nil {
		got.by = m[1]
	}
	if m := hung.FindStringSubmatch(got.out); m != nil {
		got.by, got.hung = m[1], true
	}
	return got
}

// absent returns those of the tests that did not run.
func (a answer) absent(tests []string) []string {
	return slices.DeleteFunc(slices.Clone(tests), func(test string) bool {
		return regexp.MustCompile(`(?m)^=== RUN +` + top(test) + `$`).MatchString(a.out)
	})
}

// tail is the end of the output.
func (a answer) tail() string {
	lines := strings.Split(strings.TrimSpace(a.out), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
