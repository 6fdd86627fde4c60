package worker

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// result is how the look at one hint ended, as the metrics name it.
type result string

const (
	resultDone        result = "done"         // its effect has committed
	resultEarly       result = "early"        // looked at before its time; held on
	resultStale       result = "stale"        // the row has moved on since
	resultAlreadyDone result = "already_done" // the task had ended before
	resultMissing     result = "missing"      // no such row
	resultFailed      result = "failed"       // an attempt was charged
	resultDead        result = "dead"         // the last attempt was charged, or the task was discarded
	resultUnknownKind result = "unknown_kind" // re-armed: no handler here
	resultSnoozed     result = "snoozed"      // re-armed by its handler
)

// unknownLabel stands for every kind that isn't registered, so that a sender can't grow the metrics.
const unknownLabel = "unknown"

type metrics struct {
	mux       *Mux
	settled   *prometheus.CounterVec
	lag       *prometheus.HistogramVec
	letGo     *prometheus.CounterVec
	held      prometheus.Gauge
	abandoned prometheus.Counter
	unburied  prometheus.Counter
	unindexed prometheus.Counter
	retried   prometheus.Counter
	pauses    prometheus.Counter
	clockGap  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, mux *Mux) *metrics {
	f := promauto.With(reg)
	return &metrics{
		mux: mux,
		settled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_tasks_settled_total", Help: "Looks at a hint, by what came of them.",
		}, []string{"kind", "result"}),
		lag: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duetime_fire_lag_seconds", Help: "From the due time (or the making, if later) to the commit of the effect.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, []string{"kind"}),
		letGo: f.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_hints_let_go_total", Help: "Hints given up for the sweep to put again, by why.",
		}, []string{"reason"}),
		held: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_hints_held", Help: "Hints held for their moment or being worked on.",
		}),
		abandoned: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_handlers_abandoned_total", Help: "Handlers that ignored the end of their context.",
		}),
		unburied: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_dead_letters_lost_total", Help: "Dead letters that were refused three times and passed over.",
		}),
		unindexed: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_settled_unindexed_total", Help: "Settled or scheduled tasks whose index write is left to the sweeps.",
		}),
		retried: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_batches_retried_total", Help: "Transactions rolled back for a deadlock, a lock wait or a conflict.",
		}),
		pauses: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_worker_pauses_total", Help: "Times that the worker paused because MySQL was away.",
		}),
		clockGap: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_clock_gap_seconds", Help: "How far the database's clock is ahead of this machine's.",
		}),
	}
}

func (m *metrics) count(kind string, r result) {
	m.settled.WithLabelValues(m.label(kind), string(r)).Inc()
}

func (m *metrics) label(kind string) string {
	if m.mux.handlers[kind] == nil {
		return unknownLabel
	}
	return kind
}
