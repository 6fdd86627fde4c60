package views

import (
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Only the ends of tasks that waited for workers say how fast workers are.
func TestLoadedPace(t *testing.T) {
	t.Parallel()
	// run makes tasks with run times that spread evenly over a time, and ends likewise.
	run := func(n int, first, due, end, took time.Duration) (ends []ending) {
		for i := range n {
			at := t0.Add(first + end + took*time.Duration(i)/time.Duration(n))
			ends = append(ends, ending{at, at.Sub(t0.Add(first + due*time.Duration(i)/time.Duration(n)))})
		}
		return ends
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		ends []ending
		want float64
	}{
		"on time":                           {run(360, 0, time.Minute, 5*ms, time.Minute), 0},
		"all late alike, without Kafka":     {run(360, 0, time.Minute, 1900*ms, time.Minute), 0},
		"a crowd that takes a minute":       {run(400, 0, 20*time.Second, 5*ms, time.Minute), 400. / 60},
		"a crowd at one moment":             {run(400, 0, 0, 5*ms, 4*time.Second), 100},
		"a crowd among what is on time":     {append(run(300, 0, time.Minute, 5*ms, time.Minute), run(1000, 20*time.Second, 0, 0, 10*time.Second)...), 105},
		"after an outage of two minutes":    {run(240, -2*time.Minute, 2*time.Minute, 2*time.Minute, 3*time.Second), 80},
		"always a minute late":              {run(180, 0, time.Minute, time.Minute, time.Minute), 3},
		"a slow kind among what is on time": {append(run(300, 0, time.Minute, 5*ms, time.Minute), run(150, 0, 10*time.Second, 5*time.Second, time.Minute)...), 0},
		"a crowd that is done in a moment":  {run(400, 0, 0, 5*ms, 300*ms), 0},
		"too few":                           {run(19, 0, 0, 5*ms, 10*time.Second), 0},
		"none":                              {nil, 0},
	} {
		if got := loadedPace(c.ends); !about(got, c.want, 0.1) {
			t.Errorf("%s: %.1f a second, want %.1f", name, got, c.want)
		}
	}
}

// A minute in which 90,000 tasks that became due at once ended within 20 s, beside others; and calm ones.
func TestPace(t *testing.T) {
	t.Parallel()
	g := newGenerator()
	const crowd, calm = 90_000, 3000
	var rows []task.Task
	for i := range crowd {
		rows = append(rows, g.done(t0, time.Duration(i)*20*time.Second/crowd))
	}
	for i := range 2 * calm {
		rows = append(rows, g.done(t0.Add(time.Duration(i)*time.Minute/calm), time.Millisecond))
		rows = append(rows, g.pending(t0.Add(25*time.Hour))) // made meanwhile
	}
	onBoth(t, rows, func(t *testing.T, v Views) {
		for _, c := range []struct {
			minutes int
			until   time.Time // what was done before stands in the other table
		}{{1, t0}, {3, t0}, {3, t0.Add(10 * time.Second)}, {3, t0.Add(time.Hour)}} {
			archive(t, v, c.until)
			got := value[[]float64](t)(v.Pace(t.Context(), t0, c.minutes))
			if len(got) != c.minutes || !about(got[0], 4500, 0.25) {
				t.Errorf("got %.0f a second, want about 4500 in the first of %d minutes", got, c.minutes)
			}
			for _, rate := range got[1:] {
				if rate != 0 {
					t.Errorf("a minute without load has %.0f a second: %.0f", rate, got)
				}
			}
		}
	})
}
