package bench_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/bench/protocol"
)

func TestBound(t *testing.T) {
	before := []protocol.Bucket{{Within: 0.01, Count: 500}, {Within: 0.1, Count: 500}, {Within: math.MaxFloat64, Count: 500}}
	after := []protocol.Bucket{{Within: 0.01, Count: 598}, {Within: 0.1, Count: 599}, {Within: math.MaxFloat64, Count: 600}}
	for _, c := range []struct {
		p, want float64
		before  []protocol.Bucket
	}{
		{50, 0.01, before},
		{99, 0.1, before}, // of the hundred that came meanwhile 98 are within 10 ms
		{99.9, math.MaxFloat64, before},
		{99, 0.01, nil},
	} {
		if got := bound(c.before, after, c.p); got != c.want {
			t.Errorf("bound of %v %% = %v, want %v", c.p, got, c.want)
		}
	}
}

func TestChosen(t *testing.T) {
	names := func(b bench, work string) []string {
		var names []string
		for _, w := range works {
			if w.name == work {
				for _, s := range b.chosen(w) {
					names = append(names, s.name)
				}
			}
		}
		return names
	}
	main := []string{
		"duetime", "asynq", "river", "bullmq", "rabbitmq", "rocketmq-levels", "rocketmq-timers", "redisson", "jesque", "scan",
	}
	for _, c := range []struct {
		what, work, systems string
		want                []string
	}{
		{"all", "burst", "", append(main, "zset")},
		{"all", "burst", "zset,river", []string{"river", "zset"}},
		{"all", "blocked", "", []string{"rabbitmq-ttl"}},
		{"all", "move", "", []string{"duetime", "bullmq", "redisson", "scan", "zset"}},
		{"all", "rebuild", "", []string{"duetime"}},
		{"quick", "burst", "", []string{"duetime", "bullmq"}},
		{"quick", "raw", "", []string{"raw"}},
		{"quick", "lag", "", []string{"duetime", "bullmq"}},
	} {
		t.Setenv("BENCH_SYSTEMS", c.systems)
		if diff := cmp.Diff(c.want, names(bench{quick: c.what == "quick"}, c.work)); diff != "" {
			t.Errorf("systems of %s in %s with BENCH_SYSTEMS=%s (-want +got):\n%s", c.work, c.what, c.systems, diff)
		}
	}
}

// The budgets are what fits into an hour, with a minute to spare.
func TestBudgets(t *testing.T) {
	total := 0.0
	for _, w := range works {
		if !w.apart {
			total += w.budget.Minutes()
		}
	}
	if total > 59 {
		t.Errorf("the works take %v minutes", total)
	}
}
