package bench_test

import (
	"slices"
	"time"

	"github.com/duetime/duetime/bench/report"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// step is a figure that is measured in some turns: a machine's speed changes from one second to the next, and what is
// compared should not have one minute each.
type step struct {
	world  *world
	metric report.Metric
	turns  int
	do     func() amount // one turn
}

// amount is what was done in some time.
type amount struct {
	n    int64
	took time.Duration
}

func (a amount) plus(b amount) amount { return amount{a.n + b.n, a.took + b.took} }
func (a amount) rate() float64        { return float64(a.n) / max(a.took, time.Microsecond).Seconds() }

// takeTurns measures the first steps of all, in turns, then the second ones, and so on. While one is measured, the others'
// processes stand still.
func takeTurns(all ...[][]step) {
	worlds := make([]*world, len(all))
	for i, steps := range all {
		worlds[i] = steps[0][0].world
	}
	for i := 0; ; i++ {
		var now []step
		for _, steps := range all {
			if i < len(steps) {
				now = append(now, steps[i]...)
			}
		}
		if now == nil {
			break
		}
		alternate(worlds, now)
	}
	for _, w := range worlds {
		w.thaw()
	}
}

// alternate measures steps, forwards and backwards by turns: none always has the same before it.
func alternate(worlds []*world, steps []step) {
	amounts := make([]amount, len(steps))
	order := make([]int, len(steps))
	most := 0
	for i, s := range steps {
		order[i], most = i, max(most, s.turns)
	}
	for turn := range most {
		for _, i := range order {
			if s := steps[i]; turn < s.turns {
				alone(worlds, s.world)
				amounts[i] = amounts[i].plus(s.do())
			}
		}
		slices.Reverse(order)
	}
	for i, s := range steps {
		s.world.record(s.metric, amounts[i].rate())
	}
}

// amid measures something twice, and before, between and after that something else, and gives both means.
func amid(it, other func() float64) (mean, around float64) {
	const times = 2
	around = other()
	for range times {
		mean += it()
		around += other()
	}
	return mean / times, around / (times + 1)
}

// alone lets one world go on.
func alone(worlds []*world, one *world) {
	for _, w := range worlds {
		if w != one {
			w.freeze()
		}
	}
	one.thaw()
}

// freeze stops all processes of the world but those that make and run jobs, which have nothing to do.
func (w *world) freeze() {
	w.Helper()
	if w.frozen {
		return
	}
	for _, p := range w.processes() {
		pipelinetest.Must(w, p.Freeze())
	}
	w.frozen = true
}

// thaw lets them go on, and waits until duetime's have found each other again.
func (w *world) thaw() {
	w.Helper()
	if !w.frozen {
		return
	}
	for _, p := range w.processes() {
		pipelinetest.Must(w, p.Thaw())
	}
	w.frozen = false
	if ours(w.system) {
		time.Sleep(w.bench.seconds(time.Second))
	}
}

// freezer is a process that can stand still.
type freezer interface {
	Freeze() error
	Thaw() error
}

func (w *world) processes() []freezer {
	all := slices.Clone(w.own)
	for _, app := range []*pipelinetest.App{w.event, w.daemon} {
		if app != nil {
			all = append(all, app.Proc)
		}
	}
	return all
}
