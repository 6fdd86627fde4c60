package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// silenced are the functions that count, time and write history, each with what it does instead in a build without them. One
// counter stays, in both builds: the benchmark follows a burst by it.
var silenced = []struct{ module, file, function, instead string }{
	{metricsModule, "prometheus/counter.go", "func (c *counter) Inc() {", unlessSettled},
	{metricsModule, "prometheus/counter.go", "func (c *counter) Add(v float64) {", unlessSettled},
	{metricsModule, "prometheus/gauge.go", "func (g *gauge) Set(val float64) {", "return"},
	{metricsModule, "prometheus/gauge.go", "func (g *gauge) Add(val float64) {", "return"},
	{metricsModule, "prometheus/histogram.go", "func (h *histogram) Observe(v float64) {", "return"},
	{
		"github.com/duetime/duetime", "internal/store/history.go",
		"func (s *Store) Record(ctx context.Context, q sqlx.ExtContext, events []task.Event) error {", "return nil",
	},
}

const (
	metricsModule = "github.com/prometheus/client_golang"
	unlessSettled = `if c.desc.fqName != "duetime_tasks_settled_total" { return }`
	// published is counted by event with metrics alone: it tells which build runs.
	published = "duetime_hints_published_total"
	// glance is how long after a burst's due time the metrics are read.
	glance = 500 * time.Millisecond
)

// observed measures what it costs to be seen: a burst with metrics, read in the middle of it, and history, against a build
// that notes neither. Both take turns, and turns in going first, so that what changes meanwhile hits both.
func observed(w *world) {
	n := w.bench.pick(50_000, 20_000)
	seen, silent := w.build("seen", ""), w.build("silent", w.overlay())
	turns := []func(){
		func() {
			w.switchTo(seen)
			took := w.glanced(n)
			if w.event.Metric(w, published) == 0 {
				w.Fatal("event with metrics counts nothing")
			}
			w.record(report.ObservedRate, float64(n)/took.Seconds())
		},
		func() {
			w.switchTo(silent)
			took, _ := w.drain(n)
			if w.event.Metric(w, published) > 0 {
				w.Fatal("event without metrics counts")
			}
			w.record(report.SilentRate, float64(n)/took.Seconds())
		},
	}
	for range w.bench.runs {
		turns[0]()
		turns[1]()
		slices.Reverse(turns)
	}
}

// glanced is drain while event's and daemon's metrics are read, as Prometheus does now and then.
func (w *world) glanced(n int64) time.Duration {
	w.Helper()
	j := w.soon(n, 0)
	urls := []string{w.event.URL(w, "admin"), w.daemon.URL(w, "admin")}
	read := make(chan error, 1)
	go func() {
		time.Sleep(time.Until(j.due.Add(glance)))
		read <- readMetrics(w.Context(), urls)
	}()
	took, _ := w.took(j)
	pipelinetest.Must(w, <-read)
	return took
}

func readMetrics(ctx context.Context, urls []string) error {
	for _, url := range urls {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s", req.URL, res.Status)
		}
	}
	return nil
}

// switchTo runs duetime by the programs in a folder from now on.
func (w *world) switchTo(folder string) {
	w.Helper()
	if w.event != nil {
		w.event.Stop(w)
		w.daemon.Stop(w)
		w.event = nil
	}
	w.programs = folder
	w.work(true)
}

// build compiles the driver and duetime's programs, with files replaced by those of an overlay if there is one, and returns
// their folder.
func (w *world) build(name, overlay string) string {
	w.Helper()
	folder := w.folder(name)
	for dir, pkgs := range map[string][]string{".": {"./driver"}, "..": {"./cmd/event", "./cmd/daemon"}} {
		cmd := exec.CommandContext(w.Context(), "go", append([]string{"build", "-overlay=" + overlay, "-o", folder + "/"}, pkgs...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Fatalf("build %v: %v\n%s", pkgs, err, out)
		}
	}
	return folder
}

// moduleDir is where a module's sources lie.
func (w *world) moduleDir(module string) string {
	w.Helper()
	out, err := exec.CommandContext(w.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	pipelinetest.Must(w, err)
	return strings.TrimSpace(string(out))
}

// overlay writes the silenced files and the list that has the compiler take them for the real ones.
func (w *world) overlay() string {
	w.Helper()
	dir, metrics, replace := w.folder("overlay"), w.folder("metrics"), map[string]string{}
	pipelinetest.Must(w, os.CopyFS(metrics, os.DirFS(w.moduleDir(metricsModule)))) // go overlays nothing in its module cache
	for name, path := range map[string]string{"bench.mod": "go.mod", "root.mod": "../go.mod"} {
		text, err := os.ReadFile(path)
		pipelinetest.Must(w, err)
		mod, err := filepath.Abs(path)
		pipelinetest.Must(w, err)
		replace[mod] = filepath.Join(dir, name)
		pipelinetest.Must(w, os.WriteFile(replace[mod], append(text, "\nreplace "+metricsModule+" => "+metrics+"\n"...), 0o600))
	}
	for _, s := range silenced {
		from := filepath.Join(metrics, s.file)
		to := from
		if s.module != metricsModule {
			from, to = filepath.Join(w.moduleDir(s.module), s.file), filepath.Join(dir, filepath.Base(s.file))
			replace[from] = to
		}
		text, err := os.ReadFile(from)
		pipelinetest.Must(w, err)
		if n := strings.Count(string(text), s.function); n != 1 {
			w.Fatalf("%s has %d places like %q, want one: what is silenced has to follow it", s.file, n, s.function)
		}
		silent := strings.Replace(string(text), s.function, s.function+"\n"+s.instead, 1)
		pipelinetest.Must(w, os.WriteFile(to, []byte(silent), 0o600))
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	pipelinetest.Must(w, err)
	path := filepath.Join(dir, "overlay.json")
	pipelinetest.Must(w, os.WriteFile(path, list, 0o600))
	return path
}
