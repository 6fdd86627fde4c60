package main_test

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/terminaltest"
)

// onTerminal runs the tool on a terminal.
func (d deployment) onTerminal(t *testing.T, args ...string) *terminaltest.Terminal {
	t.Helper()
	return terminaltest.Run(t, t.TempDir(), nil, pipelinetest.Build(t, "./cmd/duetime"), d.env, args...)
}

func TestDestructiveVerbsAskOnATerminal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	dead, waits := d.die(t, d.schedule(t, "ann", 0)).ID.String(), d.schedule(t, "ann", time.Hour).ID.String()
	for _, c := range []struct {
		answer string
		code   int
		says   string
		asked  string
		args   []string
	}{
		{"n\n", 1, "nothing was changed", "discard 1 dead task? [y/N]", []string{"dead", "discard", dead}},
		{"\n", 1, "nothing was changed", "discard 1 dead task? [y/N]", []string{"dead", "discard", dead}},
		{"\x03", 1, "nothing was changed", "discard 1 dead task? [y/N]", []string{"dead", "discard", dead}}, // Ctrl-C
		{"y\n", 0, "discarded 1 task", "discard 1 dead task? [y/N]", []string{"dead", "discard", dead}},
		{"n\n", 1, "nothing was changed", "cancel task " + waits + "? [y/N]", []string{"task", "cancel", waits}},
		{"n\n", 1, "nothing was changed", "block owner ann, cancel its tasks and stop its recurrences? [y/N]", []string{"owner", "block", "ann"}},
		{"yes\n", 0, "cancelled", "cancel task " + waits + "? [y/N]", []string{"task", "cancel", waits}},
	} {
		x := d.onTerminal(t, c.args...)
		x.WaitText(t, c.asked)
		x.Type(t, c.answer)
		if code := x.Wait(t, time.Minute); code != c.code {
			t.Errorf("answered %q: exit code %d, want %d", c.answer, code, c.code)
		}
		x.WaitText(t, c.says)
	}
}

func TestTaskListFitsTheTerminal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	made := d.schedule(t, strings.Repeat("owner", 12), 3*time.Hour)
	x := d.onTerminal(t, "task", "list")
	if code := x.Wait(t, time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	x.WaitText(t, made.ID.String())
	lines := strings.Split(x.Text(), "\n")
	if row := lines[len(lines)-1]; len(lines) != 3 || !strings.Contains(row, "in 2h") || !strings.Contains(row, "…") || !strings.HasSuffix(row, "0/25") {
		t.Errorf("the list:\n%s", x.Text())
	}
}

func TestTaskOnATerminal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	id := d.schedule(t, "ann", 3*time.Hour).ID.String()
	d.wantCode(t, 0, "task", "reschedule", id, "--by", "-1h", "--json", "--yes")
	x := d.onTerminal(t, "task", "get", id)
	if code := x.Wait(t, time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{id, "ann", "pending", "in 1h", "0 of 25", "scheduled", "moved", "-1h"} {
		x.WaitText(t, want)
	}
	x = d.onTerminal(t, "task", "get", id, "--json")
	x.WaitText(t, `"history": [`)
}

// A terminal that is asked for its colours answers into the next program's input, and a slow terminal delays the command:
// only commands that draw may ask it.
func TestPlainVerbsAskTheTerminalNothing(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	id := d.schedule(t, "ann", time.Hour).ID.String()
	for _, args := range [][]string{
		{"config", "check"}, {"task", "list"}, {"task", "get", id}, {"top", "--once"}, {"migrate", "up"}, {"--help"},
	} {
		cmd := exec.Command(pipelinetest.Build(t, "./cmd/duetime"), args...)
		cmd.Dir, cmd.Env = t.TempDir(), append([]string{"TERM=xterm-256color", "HOME=/"}, d.env...)
		tty, err := pty.Start(cmd)
		pipelinetest.Must(t, err)
		wrote, _ := io.ReadAll(tty) // returns an error when the tool ends
		if err := errors.Join(cmd.Wait(), tty.Close()); err != nil || len(wrote) == 0 {
			t.Errorf("%v: %v, wrote %q", args, err, wrote)
		}
		if strings.ContainsRune(string(wrote), '\x1b') {
			t.Errorf("%v wrote %q", args, wrote)
		}
	}
}

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for range 3 {
		d.schedule(t, "ann", time.Hour)
	}
	x := d.onTerminal(t, "top")
	x.WaitText(t, "pending 3")
	d.schedule(t, "ann", time.Hour)
	x.WaitText(t, "pending 4") // in a later frame
	for _, want := range []string{"duetime top", d.namespace, "scheduled", "lag p99", "LEADER", "0 of 4 whole", "QUEUE", "again each"} {
		x.WaitText(t, want)
	}
	x.Type(t, "q")
	if code := x.Wait(t, time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
