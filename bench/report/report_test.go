package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := Median(c.of); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.of, got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		of      []float64
		p, want float64
	}{{nil, 50, 0}, {[]float64{5}, 99, 5}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 99.5, 100}, {hundred, 100, 100}, {hundred, 0, 1}} {
		if got := Percentile(c.of, c.p); got != c.want {
			t.Errorf("Percentile(of %d, %v) = %v, want %v", len(c.of), c.p, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   float64
		want string
	}{
		{0, "0"},
		{0.5, "0.50"},
		{3, "3"},
		{9.876, "9.88"},
		{43.21, "43.2"},
		{432.1, "432"},
		{4321, "4,321"},
		{1234567.8, "1,234,568"},
		{-1.5, "-1.50"},
		{-123456, "-123,456"},
		{-123, "-123"},
	} {
		if got := number(c.of); got != c.want {
			t.Errorf("number(%v) = %q, want %q", c.of, got, c.want)
		}
	}
}

// some are results with three runs of duetime and of the raw limits, and one of BullMQ.
func some() *Results {
	r := &Results{
		Circumstances: "Made up.",
		Systems: []System{
			{Duetime, "**duetime**", "as it comes"}, {BullMQ, "BullMQ", "tuned"}, {River, "river", "not measured"},
		},
	}
	for _, v := range []float64{8, 5, 6} {
		r.Add(Duetime, LagP99, v)
		r.Add(Duetime, BurstEffectRate, 5000*v)
		r.Add(Raw, RawBatch, 40_000)
	}
	r.Add(Duetime, BurstEmpty, 1.5)
	r.Add(BullMQ, LagP99, 90)
	r.Add(BullMQ, BurstEmpty, 2)
	return r
}

func TestSection(t *testing.T) {
	t.Parallel()
	got := some().section(sections[0]).markdown()
	want := "| system | start p99 (ms) |\n|---|---|\n| **duetime** | **6** (8 · 5 · 6) |\n| BullMQ | 90 |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of lags (-want +got):\n%s", diff)
	}
}

func TestRatios(t *testing.T) {
	t.Parallel()
	r := some()
	r.Add(BullMQ, KillLost, 0)
	r.Add(BullMQ, KillDoubled, 13)
	got := r.ratios().markdown()
	want := "| system | lag: start p99 | burst: empty handler | killed: effects lost / doubled |\n|---|---|---|---|\n" +
		"| BullMQ | 15× | 1.33× | 0 / 13 |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of ratios (-want +got):\n%s", diff)
	}
}

func TestRatioOfRates(t *testing.T) {
	t.Parallel()
	r := new(Results)
	r.Add(Duetime, Accept8, 12_000)
	r.Add(Asynq, Accept8, 8_000)
	if got, ok := r.better(Asynq, Accept8); got != 1.5 || !ok {
		t.Errorf("better = %v, %v; want 1.5, true: our rate by theirs", got, ok)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	got := some().limits().rows
	want := [][]string{{"burst with effects, tasks/s: the same statements in batches of 100", "30,000", "40,000", "0.75"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the limits (-want +got):\n%s", diff)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	r := some()
	r.Failed = []string{"lag of river"}
	got := r.targets().rows
	want := [][]string{
		{"lag, start p99, ms", "6", "≤ 10", "pass"},
		{"lag, start p99 ÷ BullMQ's", "0.067", "≤ 0.100", "pass"},
		{"lag, start p99, ms", "6", "≤ 7", "reached"},
		{"burst with effects, rate ÷ raw batches", "0.750", "≥ 0.550", "pass"},
		{"burst with an empty handler ÷ BullMQ's", "0.750", "≤ 0.700", "**miss**"},
		{"works of systems that failed", "1", "≤ 0", "**miss**"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the targets (-want +got):\n%s", diff)
	}
}

func TestTargetOfTheFastestPeer(t *testing.T) {
	t.Parallel()
	r := new(Results)
	r.Add(Duetime, BurstEffect, 2)
	r.Add(River, BurstEffect, 28)
	r.Add(RabbitMQ, BurstEffect, 10)
	if rows := r.targets().rows; len(rows) != 1 {
		t.Errorf("%v: there is no fastest of peers that were not all measured", rows)
	}
	r.Add(Asynq, BurstEffect, 15)
	r.Add(BullMQ, BurstEffect, 16)
	if rows := r.targets().rows; rows[0][1] != "0.200" || rows[0][3] != "pass" {
		t.Errorf("%v, want 2 s by the 10 s of the fastest peer", rows[0])
	}
}

func TestGrowthRowsFollowTheirSystem(t *testing.T) {
	t.Parallel()
	r := some()
	for _, level := range []string{"10k", "1M"} {
		r.Add(At(BullMQ, level), GrowthRate, 3000)
	}
	for _, level := range []string{"10k", "1M"} {
		r.Add(At(Duetime, level), GrowthRate, 30_000)
	}
	var titles []string
	for _, row := range r.rows("growth") {
		titles = append(titles, r.title(row))
	}
	want := []string{"**duetime**, 10k pending", "**duetime**, 1M pending", "BullMQ, 10k pending", "BullMQ, 1M pending"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("the rows (-want +got):\n%s", diff)
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	if err := some().Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(some(), again); diff != "" {
		t.Errorf("what was saved (-want +got):\n%s", diff)
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	page := filepath.Join(root, "docs", "BENCHMARKS.md")
	if err := os.MkdirAll(filepath.Dir(page), 0o700); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/page.md")
	if err != nil {
		t.Fatal(err)
	}
	r := some()
	r.Curves = []Curve{
		{PlotLag, Duetime, Distribution([]float64{-0.1, 0.2, 0.5, 1, 6})},
		{PlotLag, BullMQ, Distribution([]float64{10, 46, 95})},
		{PlotGrowthRate, Duetime, []Point{{1e4, 30_000}}},
	}
	for range 2 { // the second time in place of the first
		if err := os.WriteFile(page, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.Write(root); err != nil {
			t.Fatal(err)
		}
		if text, err = os.ReadFile(page); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"# Benchmarks", "Made up.", "| BullMQ | 90 |", "(benchmarks/lag.svg)", "(benchmarks/growth-rate.svg)"} {
		if strings.Count(string(text), want) != 1 {
			t.Errorf("the page has %d times %q, want it once", strings.Count(string(text), want), want)
		}
	}
	for name, has := range map[string]string{"lag.svg": "BullMQ", "growth-rate.svg": "tasks pending"} {
		svg, err := os.ReadFile(filepath.Join(root, "docs", "benchmarks", name))
		if err != nil || !strings.Contains(string(svg), has) {
			t.Errorf("%s: %v; want it to say %q", name, err, has)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 0.1: "0.1", 250: "250", 10_000: "10k", 12_500: "12.5k", 1e7: "10M"} {
		if got := short(v); got != want {
			t.Errorf("short(%v) = %q, want %q", v, got, want)
		}
	}
}
