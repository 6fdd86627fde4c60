package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain also is what go test runs test binaries by.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == costArg {
		os.Exit(runCosted(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// sample is a package whose test fails at its first run, and beside it what each case adds.
const sample = `package sample

import (
	"os"
	"testing"
)

func TestSlowMachine(t *testing.T) {
	if _, err := os.Stat("ran"); err != nil {
		_ = os.WriteFile("ran", nil, 0o600)
		t.Fatal("too slow")
	}
}
`

// A test that passes alone is listed as flaky, and the run is green; one that fails again makes it red.
func TestSecondChance(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more string
		red  bool
		says string
	}{
		"passes alone":    {"", false, "FLAKY: sample TestSlowMachine (leg)\n"},
		"fails again":     {`func TestFault(t *testing.T) { t.Fatal("always") }`, true, "RED: sample TestFault (leg): tests failed\n"},
		"races once":      {`func init() { println("WARNING: DATA RACE") }`, true, "RED: sample (leg): a data race\n"},
		"ends the others": {`func TestPanics(t *testing.T) { panic("always") }`, true, "RED: sample (leg): tests failed\n"},
		"doesn't compile": {`func TestNothing(t *testing.T) { nothing() }`, true, "NOT COMPILED: [sample] (leg)\n"},
		"too many":        {many(maxRetried), true, "11 failures are too many to be flakes:\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, page := t.TempDir(), filepath.Join(t.TempDir(), "page.md")
			for path, text := range map[string]string{
				filepath.Join(dir, "go.mod"): "module sample\n\ngo 1.26.0\n", filepath.Join(dir, "sample_test.go"): sample + c.more,
				page: "before\n" + flakyBegin + "\n" + sectionEnd + "\nafter\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var shown bytes.Buffer
			s := &session{
				tier: "test", out: screen{&shown}, page: page, costs: &costs{filepath.Join(dir, "costs"), os.Args[0]},
				legs: []leg{{title: "leg", dir: dir, own: true, packages: []string{"."}}},
			}
			if err := s.play(t.Context()); errors.Is(err, errRed) != c.red || err != nil && !c.red {
				t.Errorf("got %v, want red: %v", err, c.red)
			}
			if !strings.Contains(shown.String(), c.says) {
				t.Errorf("shown: %s, want %s", &shown, c.says)
			}
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			listed := strings.Contains(string(text), ": sample TestSlowMachine (leg)\n"+sectionEnd+"\nafter\n")
			if want := slices.Contains([]string{"passes alone", "fails again", "races once"}, name); listed != want {
				t.Errorf("the page lists the flaky test: %v, want %v: %s", listed, want, text)
			}
		})
	}
}

// many are tests that fail.
func many(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("\nfunc TestMany%d(t *testing.T) { t.Fatal() }", i)
	}
	return text
}
