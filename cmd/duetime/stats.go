package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/console"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) stats() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "stats", Short: "Count tasks by state and kind, and show how late they fired", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(c *console.Console) error {
				st, err := c.Stats(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(t.out).Encode(st)
				}
				return t.writeStats(st)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}

func (t *tool) writeStats(st console.Stats) error {
	var lines [][]string
	for _, name := range slices.Sorted(maps.Keys(st.States)) {
		lines = append(lines, []string{"state " + name, fmt.Sprint(st.States[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(st.Kinds)) {
		lines = append(lines, []string{"kind " + name, fmt.Sprint(st.Kinds[name])})
	}
	for _, part := range []struct {
		name string
		ms   float64
	}{{"p50", st.LagMs.P50}, {"p99", st.LagMs.P99}, {"max", st.LagMs.Max}} {
		lag := fmt.Sprintf("%g ms", part.ms)
		if st.States[task.Done.String()] == 0 {
			lag = "none was done" // 0 ms would look like a good figure
		}
		lines = append(lines, []string{"lag " + part.name, lag})
	}
	return writeTable(t.out, lines)
}
