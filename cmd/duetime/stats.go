package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/pkg/task"
)

func (t *tool) stats() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "stats", Short: "Count tasks by state and kind, and show how late they fired", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd.Context(), func(p *parts.Parts) error { return t.runStats(cmd.Context(), p, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object")
	return cmd
}

func (t *tool) runStats(ctx context.Context, p *parts.Parts, asJSON bool) error {
	st, err := p.Store.Stats(ctx)
	if err != nil {
		return err
	}
	type lag struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	}
	l := lag{millis(st.LagP50), millis(st.LagP99), millis(st.LagMax)}
	if asJSON {
		return json.NewEncoder(t.out).Encode(struct {
			States map[string]int64 `json:"states"`
			Kinds  map[string]int64 `json:"kinds"`
			LagMs  lag              `json:"lag_ms"`
		}{st.States, st.Kinds, l})
	}
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
	}{{"p50", l.P50}, {"p99", l.P99}, {"max", l.Max}} {
		lag := fmt.Sprintf("%g ms", part.ms)
		if st.States[task.Done.String()] == 0 {
			lag = "none was done" // 0 ms would be praise
		}
		lines = append(lines, []string{"lag " + part.name, lag})
	}
	return writeTable(t.out, lines)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
