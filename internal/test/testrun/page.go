package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	slowest    = 50 // tests in the page's table
	flakyBegin = "<!-- flaky: written by scripts/test -->"
	tableBegin = "<!-- measured: written by scripts/test -page -->"
	sectionEnd = "<!-- end -->"
)

// keepFlaky lists the tests that passed only alone in docs/TESTING.md, for somebody to mend.
func (s *session) keepFlaky() error {
	if len(s.flaky) == 0 {
		return nil
	}
	return editPage(s.page, flakyBegin, func(old string) string {
		for _, f := range s.flaky {
			old += fmt.Sprintf("- %s: %s\n", time.Now().UTC().Format(time.DateOnly), f)
		}
		return old
	})
}

// writePage writes where the time of this run went.
func (s *session) writePage(ctx context.Context) error {
	list, err := s.costs.list()
	if err != nil {
		return err
	}
	var b strings.Builder
	user, system := s.costs.total()
	fmt.Fprintf(&b, "\nTier %s, %s, %s, on two cores: %.0f s, user+sys %.0f s.\n\n", s.tier, time.Now().UTC().Format(time.DateOnly), commit(ctx),
		time.Since(s.began).Seconds(), (user + system).Seconds())
	b.WriteString("| package | leg | wall s | user+sys s | waits s |\n|---|---|---|---|---|\n")
	slices.SortFunc(list, func(a, b cost) int { return cmp.Compare(b.busy(), a.busy()) })
	root, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	for _, c := range list {
		name, err := filepath.Rel(root, c.pkg)
		if err != nil {
			return fmt.Errorf("name the package in %s: %w", c.pkg, err)
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %.1f | %.1f |\n", name, c.leg, c.wall.Seconds(), c.busy().Seconds(), max(0, c.wall-c.busy()).Seconds())
	}
	b.WriteString("\n| slowest tests | leg | wall s |\n|---|---|---|\n")
	for _, t := range s.slowest() {
		fmt.Fprintf(&b, "| %s | %s | %.1f |\n", strings.TrimPrefix(t.name, modulePrefix), t.leg, t.wall.Seconds())
	}
	compiled, err := s.compile(ctx)
	if err != nil {
		return err
	}
	return editPage(s.page, tableBegin, func(string) string { return b.String() + compiled })
}

func (c cost) busy() time.Duration { return c.user + c.system }

func (s *session) slowest() []timed {
	var all []timed
	for _, r := range s.results {
		all = append(all, r.tests...)
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.wall, a.wall) })
	return all[:min(len(all), slowest)]
}

// compile says how long all test binaries take to compile from nothing, without and with the race detector.
func (s *session) compile(ctx context.Context) (string, error) {
	text := "\n| compiling all test binaries from nothing | wall s | user+sys s |\n|---|---|---|\n"
	for _, c := range []struct {
		title string
		args  []string
	}{{"without the race detector", nil}, {"with it", raced}} {
		dir, err := os.MkdirTemp("", "duetime-compile-")
		if err != nil {
			return "", fmt.Errorf("make a cache to compile into: %w", err)
		}
		cmd := exec.CommandContext(ctx, "go", append(append([]string{"test", "-run", "^$", "-exec", "true"}, c.args...), "./...")...) //nolint:gosec // our own arguments
		cmd.Env = append(os.Environ(), "GOCACHE="+dir)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		_ = os.RemoveAll(dir)
		if err != nil {
			return "", fmt.Errorf("compile: %w\n%s", err, out)
		}
		text += fmt.Sprintf("| %s | %.0f | %.0f |\n", c.title, time.Since(began).Seconds(),
			(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	return text, nil
}

func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "no commit"
	}
	return "commit " + string(bytes.TrimSpace(out))
}

// editPage replaces what stands in the page between the line begin and the next end.
func editPage(path, begin string, edit func(old string) string) error {
	text, err := os.ReadFile(path) //nolint:gosec // a page of the repository
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, section, found := strings.Cut(string(text), begin+"\n")
	old, after, ended := strings.Cut(section, sectionEnd)
	if !found || !ended {
		return fmt.Errorf("%s has no section %s", path, begin)
	}
	if err := os.WriteFile(path, []byte(before+begin+"\n"+edit(old)+sectionEnd+after), 0o600); err != nil { //nolint:gosec // a page of the repository
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
