package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

const (
	viewers   = 20
	lookEvery = 2 * time.Second // from one view of a viewer to the next
)

// pages measures the console's pages beside ten million rows: how long each view takes while many people look at them, and how
// late tasks are with and without these people.
func pages(w *world, f *report.Figures) {
	w.work(true)
	n := w.bench.count(10_000_000)
	w.indexAnew(func() {
		w.plantSpread(planted{n: n, owners: max(n/10, 1), from: farOff, spread: month})
		w.endPlanted()
	})
	w.quieten()
	w.warm()
	views := &visits{base: w.deployment.Console(w), took: map[string][]float64{}, empty: map[string]int{}}
	seconds := w.bench.count(30)
	var without, with, ratios []float64
	for range w.bench.runs {
		alone := w.lags(seconds * int64(time.Second/pace))
		ctx, stop := context.WithCancel(w.Context())
		var group errgroup.Group
		group.Go(func() error { return views.look(ctx, w) })
		watched := w.lags(seconds * int64(time.Second/pace))
		stop()
		pipelinetest.Must(w, group.Wait())
		without, with = append(without, report.Percentile(alone.starts, 99)), append(with, report.Percentile(watched.starts, 99))
		ratios = append(ratios, with[len(with)-1]/without[len(without)-1])
	}
	for _, view := range slices.Sorted(maps.Keys(views.took)) {
		took := views.took[view]
		slices.Sort(took)
		text := fmt.Sprintf("%.0f and %.0f of %d", report.Percentile(took, 50), report.Percentile(took, 95), len(took))
		if n := views.empty[view]; n > 0 {
			text += fmt.Sprintf(", %d before the first reading", n)
		}
		f.Text("view "+view+", p50 and p95 (ms)", text)
	}
	f.Text("lag at 500/s, start p99 (ms), without viewers", fmt.Sprintf("%.2f", without))
	f.Text(fmt.Sprintf("the same with %d viewers, each at another view every %v", viewers, lookEvery), fmt.Sprintf("%.2f", with))
	f.Text("with ÷ without, in turns", fmt.Sprintf("%.2f", ratios))
}

// endPlanted makes a quarter of the rows done, as of the last hour and a half, and one in a thousand dead.
func (w *world) endPlanted() {
	w.Helper()
	var from, to int64
	pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SELECT MIN(run_at), MAX(run_at) + 1 FROM duetime_tasks").Scan(&from, &to))
	const parts = 100
	for i := range int64(parts) {
		first, last := from+(to-from)*i/parts/4, from+(to-from)*(i+1)/parts/4
		w.exec(fmt.Sprintf(`UPDATE duetime_tasks SET state = IF(run_at MOD 1000 = 7, 3, 1), version = version + 1, last_error = IF(run_at MOD 1000 = 7,
			CONCAT('no answer from shop ', run_at MOD 97), ''), due_at = %s - 5400000 + (run_at - ?) MOD 5400000, run_at = due_at, created_at = due_at - 60000,
			finished_at = due_at + 1 + due_at MOD 7, updated_at = finished_at WHERE state = 0 AND run_at >= ? AND run_at < ?`, rawNow), from, first, last)
	}
}

// visits are requests of views, and how long each took in ms.
type visits struct {
	base  string
	mu    sync.Mutex
	took  map[string][]float64
	empty map[string]int // of these, how many had no figures yet
}

// look lets all viewers go from view to view until ctx ends.
func (v *visits) look(ctx context.Context, w *world) error {
	var id []byte
	if err := w.db.QueryRowContext(ctx, "SELECT id FROM duetime_tasks WHERE state = 0 LIMIT 1").Scan(&id); err != nil {
		return err
	}
	asks := []struct{ view, at string }{
		{"now", "now?span=1h"},
		{"now, a day", "now?span=1d&by=queue"},
		{"now, a kind", "now?kind=pet.meal"},
		{"owner", "owner?owner=player-7&span=30d"},
		{"task", "task?id=" + task.ID(id).String()},
		{"tasks", "tasks?kind=pet.meal&state=done"},
		{"tasks, nothing found", "tasks?" + url.Values{"kind": {"nothing"}, "state": {"pending"}}.Encode()},
		{"dead", "dead"},
		{"system", "system"},
		{"changes", "changes"},
	}
	var group errgroup.Group
	for viewer := range viewers {
		group.Go(func() error {
			ticker := time.NewTicker(lookEvery)
			defer ticker.Stop()
			for nth := viewer; ; nth++ {
				select {
				case <-ctx.Done():
					return nil
				case <-ticker.C:
				}
				ask := asks[nth%len(asks)]
				if err := v.visit(ctx, ask.view, ask.at); err != nil && ctx.Err() == nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func (v *visits) visit(ctx context.Context, view, at string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.base+at, http.NoBody)
	if err != nil {
		return err
	}
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", at, res.StatusCode)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if bytes.Contains(body, []byte("data-reading")) {
		v.empty[view]++
	}
	v.took[view] = append(v.took[view], float64(time.Since(began).Microseconds())/1000)
	return nil
}
