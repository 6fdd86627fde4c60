package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) processes() *cobra.Command {
	cmd := &cobra.Command{
		Use: "processes", Short: "List the processes, how they are, and what they run", Args: cobra.NoArgs,
		Long: `List the processes: events, daemons, workers, APIs, consoles.

Each says in MySQL every few seconds that it lives, and which handlers it runs. One that stops is gone from the list at once. One
that says nothing for 15 s is silent: it crashed, hangs, or can't reach MySQL. It is listed for an hour. One that runs a handler for
longer than the handler's limit is stuck. RUNS has the number of handlers and the one that has run for longest, at the last report;
--json has all.`,
	}
	shows(t, cmd, (*console.Console).Processes, t.writeProcesses)
	return cmd
}

func (t *tool) writeProcesses(all []console.Process) error {
	lines := [][]string{{"PROCESS", "HOST", "PID", "VERSION", "STATE", "SINCE", "SEEN", "LEADS", "QUEUES", "RUNS"}}
	for _, p := range all {
		leads, queues := "-", "-"
		if p.Epoch > 0 {
			leads = "epoch " + strconv.FormatInt(p.Epoch, 10)
		}
		if len(p.Queues) > 0 {
			queues = strings.Join(p.Queues, " ")
		}
		lines = append(lines, []string{
			p.Role, p.Host, strconv.Itoa(p.PID), p.Version, string(p.State), t.stamped(p.StartedMs), sinceNow(p.SeenMs), leads, queues, runs(p),
		})
	}
	return writeTable(t.out, lines)
}

// runs names the handler that has run for longest.
func runs(p console.Process) string {
	if len(p.Calls) == 0 {
		return "-"
	}
	longest := p.Calls[0]
	ran := time.Duration(max(0, p.SeenMs-longest.SinceMs)) * time.Millisecond
	return fmt.Sprintf("%d: %s for %s, task %s", len(p.Calls), longest.Kind, short(ran), longest.Task)
}
