package views

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// What a page's views read. DUETIME_BENCH_ROWS is the number of rows: half of them pending and due within 30 days, half done at
// 100 a second up to now. Among them, 140,000 are due in one minute of the next hour, and 140,000 were due in one of the last
// hour. The history has as many lines. Ten million rows take some minutes to write:
//
//	DUETIME_BENCH_ROWS=10000000 go test -run none -bench Page -timeout 1h ./pkg/console/internal/views
func BenchmarkPage(b *testing.B) {
	rows := 20_000
	if text := os.Getenv("DUETIME_BENCH_ROWS"); text != "" {
		n, err := strconv.Atoi(text)
		pipelinetest.Must(b, err)
		rows = n
	}
	v := openMySQL(b)
	now := value[time.Time](b)(v.Store.Now(b.Context(), nil))
	writeLarge(b, v, rows, now)
	hour := now.Add(-time.Hour)
	operators, _, err := v.Operators(b.Context())
	pipelinetest.Must(b, err)
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"ahead", func() error {
			_, err := v.Ahead(b.Context(), AheadQuery{From: now, Step: time.Minute, Steps: 60, By: "kind", Overdue: now})
			return err
		}},
		{"ahead/day", func() error {
			_, err := v.Ahead(b.Context(), AheadQuery{From: now, Step: 10 * time.Minute, Steps: 144, By: "queue", Overdue: now})
			return err
		}},
		{"pace/hour", func() error { _, err := v.Pace(b.Context(), hour, 60); return err }},
		{"pace/crowd", func() error {
			_, err := v.Pace(b.Context(), now.Add(-crowdAway), 1)
			return err
		}},
		{"lag/hour", func() error {
			_, err := v.LagSample(b.Context(), LagQuery{From: hour, Step: time.Minute, Steps: 61, Now: now})
			return err
		}},
		{"lag/day", func() error {
			day := now.Add(-24 * time.Hour)
			_, err := v.LagSample(b.Context(), LagQuery{From: day, Step: 10 * time.Minute, Steps: 145, Now: now})
			return err
		}},
		{"dead", func() error { _, err := v.Dead(b.Context(), 5001); return err }},
		{"operators", func() error { _, _, err := v.Operators(b.Context()); return err }},
		{"acts", func() error { _, err := v.Acts(b.Context(), ActQuery{Actors: operators, Limit: 101}); return err }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				pipelinetest.Must(b, c.read())
			}
		})
	}
}

// crowdAway is how far the minutes with many tasks are from now.
const crowdAway = 30 * time.Minute

// writeLarge writes the rows and lines of a benchmark.
func writeLarge(b *testing.B, v Views, rows int, now time.Time) {
	b.Helper()
	const second, span = 100, 30 * 24 * time.Hour
	crowd := min(140_000, rows/10)
	g := newGenerator()
	pending := (rows - 2*crowd) / 2
	write(b, v, pending, func(i int) task.Task {
		row := g.pending(now.Add(time.Duration(float64(span) * float64(i) / float64(pending))))
		if i%2000 == 0 {
			row.State, row.LastError, row.RunAt = task.Dead, "connection 127.0.0.1:3306 was refused", now.Add(-time.Hour)
		}
		return row
	})
	write(b, v, pending, func(i int) task.Task {
		return g.done(now.Add(-time.Duration(i+1)*time.Second/second), 3*time.Millisecond)
	})
	write(b, v, crowd, func(int) task.Task { return g.pending(now.Add(crowdAway)) })
	write(b, v, crowd, func(i int) task.Task { return g.done(now.Add(-crowdAway), time.Duration(i)*time.Second/50_000) })
	lines := make([]protocol.Event, 1000)
	for i := 0; i < rows; i += len(lines) {
		for k := range lines {
			at, actor := now.Add(-time.Duration(rows-i-k)*time.Second/10), protocol.ActorService
			if k%500 == 0 {
				actor = "ann@host"
			}
			lines[k] = protocol.Event{At: at, Task: g.id(), Name: protocol.EventMoved, Actor: actor}
		}
		pipelinetest.Must(b, v.Store.Record(b.Context(), nil, lines))
	}
	pipelinetest.Must(b, exec(v, "ANALYZE TABLE duetime_tasks, duetime_history"))
	b.ResetTimer()
}
