package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) processes() *cobra.Command {
	cmd := &cobra.Command{
		Use: "processes", Short: "List the processes that are alive", Args: cobra.NoArgs,
		Long: `List the processes that are alive: events, daemons, workers, APIs, consoles.

Each says in MySQL every few seconds that it lives. One that stops is gone from the list at once, one that crashed or can't
reach MySQL after 15 s.`,
	}
	shows(t, cmd, (*console.Console).Processes, t.writeProcesses)
	return cmd
}

func (t *tool) writeProcesses(all []console.Process) error {
	lines := [][]string{{"PROCESS", "HOST", "PID", "VERSION", "SINCE", "SEEN", "LEADS", "QUEUES"}}
	for _, p := range all {
		leads, queues := "-", "-"
		if p.Epoch > 0 {
			leads = "epoch " + strconv.FormatInt(p.Epoch, 10)
		}
		if len(p.Queues) > 0 {
			queues = strings.Join(p.Queues, " ")
		}
		lines = append(lines, []string{p.Role, p.Host, strconv.Itoa(p.PID), p.Version, t.stamped(p.StartedMs), sinceNow(p.SeenMs), leads, queues})
	}
	return writeTable(t.out, lines)
}
