package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/pkg/console"
)

// statsWindow is as long as people ask about, and as short as a busy table is read within seconds.
const statsWindow = time.Hour

func (t *tool) stats() *cobra.Command {
	var window time.Duration
	cmd := &cobra.Command{
		Use: "stats", Short: "Count tasks by state and kind, and show how late they fired", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window < 0 {
				return fmt.Errorf("--window %v is below 0s", window)
			}
			return t.with(cmd.Context(), func(c *console.Console) error {
				return showing(t, t.writeStats)(c.Stats(cmd.Context(), window))
			})
		},
	}
	t.jsonFlag(cmd, jsonObject)
	cmd.Flags().DurationVar(&window, "window", statsWindow, "count kinds and lag of tasks that changed this lately; 0s counts all, which reads the whole table")
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
		if st.Fired == 0 {
			lag = "none was done" // 0 ms would look like a good figure
		}
		lines = append(lines, []string{"lag " + part.name, lag})
	}
	return writeTable(t.out, lines)
}
