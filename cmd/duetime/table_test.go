package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// names have several widths: two columns a character, none for a combining accent, one emoji of several code points.
var names = []string{"ann", "王小明", "e\u0301va", "👩‍👩‍👧", "ｗｉｄｅ", "مريم", strings.Repeat("数", 32)}

func TestColumnsAreAlignedWhateverStandsInThem(t *testing.T) {
	t.Parallel()
	lines := [][]string{{"OWNER", "STATE", "DUE"}}
	for _, name := range names {
		lines = append(lines, []string{name, "pending", "soon"})
	}
	var out bytes.Buffer
	if err := writeTable(&out, lines); err != nil {
		t.Fatal(err)
	}
	wantColumn(t, out.String(), "pending", 64+columnGap)
}

// wantColumn wants a text to begin in the same column of each line except the first.
func wantColumn(t *testing.T, table, text string, want int) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(table)) {
		before, _, found := strings.Cut(line, text)
		if got := uniseg.StringWidth(before); found && got != want {
			t.Errorf("%s begins in column %d, want %d:\n%s", text, got, want, table)
		}
	}
}

func TestListFitsTheTerminalWhateverTheNames(t *testing.T) {
	t.Parallel()
	var rows []console.Task
	for _, name := range names {
		rows = append(rows, console.TaskOf(task.Task{
			Kind: "餐.完成", Owner: name, DueAt: time.Now().Add(150 * time.Minute), FinishedAt: time.Now(), MaxAttempts: 25,
		}))
	}
	var list, dead bytes.Buffer
	if err := (&tool{out: &list}).writeNarrowTasks(rows, 80); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(list.String()) {
		if n := uniseg.StringWidth(strings.TrimSpace(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	rows[0].LastError = strings.Repeat("王", 80)
	if err := (&tool{out: &dead}).writeNarrowDead(rows, 80); err != nil {
		t.Fatal(err)
	}
	if line := strings.Split(dead.String(), "\n")[1]; uniseg.StringWidth(line) > 80 || !strings.HasSuffix(line, "…") {
		t.Errorf("%d columns: %s", uniseg.StringWidth(line), line)
	}
	at := strings.Index(list.String(), "pending")
	wantColumn(t, list.String(), "pending", uniseg.StringWidth(list.String()[strings.LastIndex(list.String()[:at], "\n")+1:at]))
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"ann", 3, "ann"}, {"anna", 3, "an…"}, {"王小明", 6, "王小明"}, {"王小明", 5, "王小…"}, {"王小明", 4, "王…"}, {"👩‍👩‍👧x", 2, "…"}, {"王", 1, "…"}} {
		if diff := cmp.Diff(c.want, cut(c.text, c.width)); diff != "" {
			t.Errorf("%q to %d (-want +got):\n%s", c.text, c.width, diff)
		}
	}
}

// A row must not contain text that a terminal executes: an error's text could clear the screen, or hide what follows.
func TestTablesHoldNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	evil := "a\x1b[2J\u202eb\x07\u009bc"
	row := console.TaskOf(task.Task{Kind: evil, Owner: evil, Subject: evil, Queue: evil, LastError: evil, Payload: []byte(evil), MaxAttempts: 1})
	var out bytes.Buffer
	x := &tool{out: &out}
	for _, err := range []error{
		x.writeTask(row), x.writeTasks([]console.Task{row}), x.writeDead([]console.Task{row}),
		x.writeNarrowTasks([]console.Task{row}, 80), x.writeNarrowDead([]console.Task{row}, 80),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e\x07\u009b") || !strings.Contains(out.String(), "a?[2J?b??c") {
		t.Errorf("wrote %q", out.String())
	}
}
