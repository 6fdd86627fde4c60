package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
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
	resultSkipped     result = "skipped"      // cancelled: too late for its kind to be run at all
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
	settling  prometheus.Histogram
	tidied    prometheus.Gauge
	kinds     map[string]*kindMetrics // those with a handler; never changed
}

// kindMetrics are a kind's own, looked up once: the hot path counts each task.
type kindMetrics struct {
	lag     prometheus.Observer
	settled map[result]prometheus.Counter
}

// results are those that the settled counter shows from the start.
var results = []result{
	resultDone, resultEarly, resultStale, resultAlreadyDone, resultMissing, resultFailed, resultDead, resultUnknownKind, resultSnoozed,
	resultSkipped,
}

// lagBuckets have the promise's bound, a second, and 15 ms, near which a healthy p99 lies.
var lagBuckets = []float64{.001, .0025, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

var settleBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newMetrics(reg prometheus.Registerer, mux *Mux) *metrics {
	m := &metrics{
		mux: mux,
		settled: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_tasks_settled_total", Help: "Looks at a hint, by what came of them.",
		}, []string{"kind", "result"})),
		lag: metric.Shared(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duetime_fire_lag_seconds", Help: "From the due time (or the making, if later) to the commit of the effect.",
			Buckets: lagBuckets,
		}, []string{"kind"})),
		letGo: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_hints_let_go_total", Help: "Hints given up for the sweep to put again, by why.",
		}, []string{"reason"})),
		held:      gauge(reg, "duetime_hints_held", "Hints held for their moment or being worked on."),
		abandoned: counter(reg, "duetime_handlers_abandoned_total", "Handlers that ignored the end of their context."),
		unburied:  counter(reg, "duetime_dead_letters_lost_total", "Dead letters that were refused three times and passed over."),
		unindexed: counter(reg, "duetime_settled_unindexed_total", "Settled or scheduled tasks whose index write is left to the sweeps."),
		retried:   counter(reg, "duetime_batches_retried_total", "Transactions rolled back for a deadlock, a lock wait or a conflict."),
		pauses:    counter(reg, "duetime_worker_pauses_total", "Times that the worker paused because MySQL was away."),
		settling: metric.Shared(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "duetime_settle_duration_seconds", Help: "Duration of one batch's transaction that committed, handlers included.",
			Buckets: settleBuckets,
		})),
		tidied: gauge(reg, "duetime_worker_last_success_timestamp_seconds",
			"When the worker's own loop last got through a pass without an error, in Unix seconds of this machine's clock."),
		kinds: map[string]*kindMetrics{},
	}
	for kind := range mux.handlers {
		m.kinds[kind] = m.ofKind(kind)
	}
	return m
}

func (m *metrics) ofKind(label string) *kindMetrics {
	k := &kindMetrics{lag: m.lag.WithLabelValues(label), settled: map[result]prometheus.Counter{}}
	for _, r := range results {
		k.settled[r] = m.settled.WithLabelValues(label, string(r))
	}
	return k
}

func counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	return metric.Shared(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func gauge(reg prometheus.Registerer, name, help string) prometheus.Gauge {
	return metric.Shared(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (m *metrics) count(kind string, r result) {
	if k := m.kinds[kind]; k != nil && k.settled[r] != nil {
		k.settled[r].Inc()
		return
	}
	m.settled.WithLabelValues(m.label(kind), string(r)).Inc()
}

func (m *metrics) observe(kind string, lag time.Duration) {
	if k := m.kinds[kind]; k != nil {
		k.lag.Observe(lag.Seconds())
		return
	}
	m.lag.WithLabelValues(m.label(kind)).Observe(lag.Seconds())
}

func (m *metrics) label(kind string) string {
	if m.mux.handlers[kind] == nil {
		return unknownLabel
	}
	return kind
}
