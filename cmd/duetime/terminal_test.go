package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/pipelinetest"
	"github.com/duetime/duetime/internal/terminaltest"
)

// onTerminal runs the tool on a terminal.
func (d deployment) onTerminal(t *testing.T, args ...string) *terminaltest.Terminal {
	t.Helper()
	return terminaltest.Run(t, t.TempDir(), nil, pipelinetest.Build(t, "./cmd/duetime"), d.env, args...)
}

func TestDestructiveVerbsAskOnATerminal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, c := range []struct {
		answer string
		code   int
		says   string
	}{
		{"n\n", 1, "nothing was changed"},
		{"\n", 1, "nothing was changed"},
		{"\x03", 1, "nothing was changed"}, // Ctrl-C
		{"y\n", 0, "default is paused"},
		{"yes\n", 0, "default was paused already"},
	} {
		x := d.onTerminal(t, "pause", "default")
		x.WaitText(t, "pause queue default? [y/N]")
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

func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for range 3 {
		d.schedule(t, "ann", time.Hour)
	}
	x := d.onTerminal(t, "top")
	x.WaitText(t, "pending 3")
	d.schedule(t, "ann", time.Hour)
	x.WaitText(t, "pending 4") // of a later frame
	for _, want := range []string{"duetime top", d.namespace, "scheduled", "lag p99", "LEADER", "0 of 4 whole", "QUEUE", "again each"} {
		x.WaitText(t, want)
	}
	x.Type(t, "q")
	if code := x.Wait(t, time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
