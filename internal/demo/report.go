package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/duetime/duetime/internal/pet"
	"github.com/duetime/duetime/pkg/task"
)

// report is the game's result: counts of the game, broken promises, lags and faults.
type report struct {
	MealsFinished int64   `json:"meals_finished"`
	Moved         int64   `json:"moved"`
	Cancelled     int64   `json:"cancelled"`
	AutoFed       int64   `json:"auto_fed"`
	Failed        int64   `json:"failed_calls"`
	Lost          int64   `json:"lost"`
	Duplicate     int64   `json:"duplicate"`
	Early         int64   `json:"early"`
	Overdue       int64   `json:"overdue"`
	LagP50        float64 `json:"lag_p50_ms"`
	LagP99        float64 `json:"lag_p99_ms"`
	LagMax        float64 `json:"lag_max_ms"`
	Faults        []fault `json:"faults"`
}

// auditRetention is less than a pipeline keeps ended tasks for.
const auditRetention = time.Hour

func (r report) broken() bool {
	return r.Lost+r.Duplicate+r.Early+r.Overdue > 0 || r.MealsFinished == 0
}

func (s *stage) report(ctx context.Context, faults []fault) (report, error) {
	r := report{Faults: faults, Failed: s.counts.failed.Load()}
	found, err := pet.Audit(ctx, s.rows.DB(), auditRetention, func(ctx context.Context, ids []task.ID) ([]task.Task, error) {
		return s.rows.Get(ctx, nil, ids)
	})
	if err != nil {
		return r, err
	}
	r.Lost, r.Duplicate, r.Early = found.Lost, found.Duplicate, found.Early
	if r.Overdue, err = s.rows.Overdue(ctx, 2*time.Second); err != nil {
		return r, err
	}
	events, err := pet.Events(ctx, s.rows.DB())
	if err != nil {
		return r, err
	}
	r.MealsFinished, r.Moved = events.Finished, events.SpedUp
	r.Cancelled, r.AutoFed = events.Cancelled, events.AutoFed
	firings, err := pet.Firings(ctx, s.rows.DB())
	if err != nil {
		return r, err
	}
	r.LagP50, r.LagP99, r.LagMax = lags(firings, faults)
	return r, nil
}

// lags returns percentiles in milliseconds. It leaves out tasks that were due while a fault lasted.
func lags(firings []pet.Firing, faults []fault) (p50, p99, highest float64) {
	var all []time.Duration
	for _, f := range firings {
		if !slices.ContainsFunc(faults, func(x fault) bool { return !f.DueAt.Before(x.began) && !f.DueAt.After(x.healed) }) {
			all = append(all, f.Lag())
		}
	}
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[min(int(q*float64(len(all))), len(all)-1)]) / float64(time.Millisecond)
	}
	return at(0.50), at(0.99), at(1)
}

func (r report) write(w io.Writer, asJSON bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range []struct {
		name  string
		value any
	}{
		{"meals finished", r.MealsFinished},
		{"moved", r.Moved},
		{"cancelled", r.Cancelled},
		{"auto-fed", r.AutoFed},
		{"lost", r.Lost},
		{"duplicate", r.Duplicate},
		{"early", r.Early},
		{"overdue", r.Overdue},
	} {
		_, _ = fmt.Fprintf(t, "%s\t%d\n", line.name, line.value)
	}
	for _, f := range r.Faults {
		_, _ = fmt.Fprintf(t, "%s healed after\t%.0f ms\n", f.Kind, f.HealMs)
	}
	_, _ = fmt.Fprintf(t, "lag p50 / p99 / max\t%.0f / %.0f / %.0f ms\n", r.LagP50, r.LagP99, r.LagMax)
	if err := t.Flush(); err != nil || !asJSON {
		return err
	}
	return json.NewEncoder(w).Encode(r)
}
