package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

func (t *tool) verify() *cobra.Command {
	subjects, help := "MySQL, Redis", ""
	for _, a := range t.audits {
		subjects += " and " + a.Subject
		help += "\n\n" + a.Help
	}
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare " + subjects + ", and count what is wrong", Args: cobra.NoArgs,
		Long: "Compare " + subjects + `, and count what is wrong.

MySQL against Redis. overdue: pending beyond daemon.grace. missing, extra: entries that Redis lacks, or has too many, in either
set, and still after 2 s.

The rows by themselves, of whatever kinds. stuck: overdue for more than 10 min in a queue that is neither paused nor waits for
its limit, so that nobody works on them. premature: marked done before they were due. invalid: rows that no transition leaves
behind, such as one with more attempts than it may have, or ended without an end.` + help + `

left_behind, if there are any: active recurrences that have had no task for a minute after their tick. A daemon mends them.

unhandled, if there are any: pending tasks of kinds that no worker which took them knows. They wait, and leave the exit code
alone.

Exit code 1 if any count but the last is above 0, 2 if a server can't be reached. Without Redis, missing and extra are not checked.
It reads all rows, in short statements that lock none.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(c *console.Console) error {
				v, away := c.Verify(cmd.Context())
				if v == nil {
					return away
				}
				err := show(t, v, t.writeVerified)
				if err == nil && v.Broken() {
					return exit{code: 1}
				}
				return errors.Join(err, away)
			})
		},
	}
	t.jsonFlag(cmd, jsonObject)
	return cmd
}

func (t *tool) writeVerified(v console.Verified) error {
	var lines [][]string
	for _, count := range v {
		n := "not checked"
		if count.Number != nil {
			n = strconv.FormatInt(*count.Number, 10)
		}
		lines = append(lines, []string{count.Name, n, count.Remark})
	}
	return writeTable(t.out, lines)
}
