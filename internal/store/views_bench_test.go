package store_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// What a page's views read. DUETIME_BENCH_ROWS is the number of rows: half of them pending and due within 30 days, half done at
// 100 a second up to now. Among them, 140,000 are due in one minute of the next hour, and 140,000 were due in one of the last
// hour. The history has as many lines. Ten million rows take some minutes to write:
//
//	DUETIME_BENCH_ROWS=10000000 go test -run none -bench Page -timeout 1h ./internal/store
func BenchmarkPage(b *testing.B) {
	rows := 20_000
	if text := os.Getenv("DUETIME_BENCH_ROWS"); text != "" {
		n, err := strconv.Atoi(text)
		must(b, err)
		rows = n
	}
	s, _ := openMySQLStore(b, store.Options{})
	now := value[time.Time](b)(s.Now(b.Context(), nil))
	writeLarge(b, s, rows, now)
	hour := now.Add(-time.Hour)
	operators, _, err := s.Operators(b.Context())
	must(b, err)
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"ahead", func() error {
			_, err := s.Ahead(b.Context(), store.AheadQuery{From: now, Step: time.Minute, Steps: 60, By: "kind", Overdue: now})
			return err
		}},
		{"ahead/day", func() error {
			_, err := s.Ahead(b.Context(), store.AheadQuery{From: now, Step: 10 * time.Minute, Steps: 144, By: "queue", Overdue: now})
			return err
		}},
		{"pace/calm", func() error { _, err := s.Pace(b.Context(), hour, hour.Add(time.Minute)); return err }},
		{"pace/crowd", func() error {
			_, err := s.Pace(b.Context(), now.Add(-crowdAway), now.Add(-crowdAway+time.Minute))
			return err
		}},
		{"lag/hour", func() error {
			_, err := s.LagSample(b.Context(), store.LagQuery{From: hour, Step: time.Minute, Steps: 61, Now: now})
			return err
		}},
		{"lag/day", func() error {
			day := now.Add(-24 * time.Hour)
			_, err := s.LagSample(b.Context(), store.LagQuery{From: day, Step: 10 * time.Minute, Steps: 145, Now: now})
			return err
		}},
		{"dead", func() error { _, err := s.Dead(b.Context(), 5001); return err }},
		{"operators", func() error { _, _, err := s.Operators(b.Context()); return err }},
		{"acts", func() error { _, err := s.Acts(b.Context(), store.ActQuery{Actors: operators, Limit: 101}); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				must(b, c.read())
			}
		})
	}
}

// crowdAway is how far the minutes with many tasks are from now.
const crowdAway = 30 * time.Minute

// writeLarge writes the rows and lines of a benchmark.
func writeLarge(b *testing.B, s *store.Store, rows int, now time.Time) {
	b.Helper()
	const second, span = 100, 30 * 24 * time.Hour
	crowd := min(140_000, rows/10)
	g := newGenerator()
	pending := (rows - 2*crowd) / 2
	write(b, s, pending, func(i int) task.Task {
		row := g.pending(now.Add(time.Duration(float64(span) * float64(i) / float64(pending))))
		if i%2000 == 0 {
			row.State, row.LastError, row.RunAt = task.Dead, "connection 127.0.0.1:3306 was refused", now.Add(-time.Hour)
		}
		return row
	})
	write(b, s, pending, func(i int) task.Task {
		return g.done(now.Add(-time.Duration(i+1)*time.Second/second), 3*time.Millisecond)
	})
	write(b, s, crowd, func(int) task.Task { return g.pending(now.Add(crowdAway)) })
	write(b, s, crowd, func(i int) task.Task { return g.done(now.Add(-crowdAway), time.Duration(i)*time.Second/50_000) })
	lines := make([]task.Event, 1000)
	for i := 0; i < rows; i += len(lines) {
		for k := range lines {
			at, actor := now.Add(-time.Duration(rows-i-k)*time.Second/10), task.ActorService
			if k%500 == 0 {
				actor = "ann@host"
			}
			lines[k] = task.Event{At: at, Task: g.id(), Name: task.EventMoved, Actor: actor}
		}
		must(b, s.Record(b.Context(), nil, lines))
	}
	must(b, exec(s.DB(), "ANALYZE TABLE duetime_tasks, duetime_history"))
	b.ResetTimer()
}
