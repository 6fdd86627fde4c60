package settle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

// Result is how the look at one hint ended, as the metrics name it.
type Result string

const (
	resultDone        Result = "done"         // its effect has committed
	resultEarly       Result = "early"        // looked at before its time; held on
	resultStale       Result = "stale"        // the row has moved on since
	resultAlreadyDone Result = "already_done" // the task had ended before
	resultMissing     Result = "missing"      // no such row
	resultFailed      Result = "failed"       // an attempt was charged
	resultDead        Result = "dead"         // the last attempt was charged, or the task was discarded
	resultUnknownKind Result = "unknown_kind" // re-armed: no handler here
	resultSnoozed     Result = "snoozed"      // re-armed by its handler
	resultSkipped     Result = "skipped"      // cancelled: too late for its kind to be run at all
)

// results are those that the settled counter shows from the start.
var results = []Result{
	resultDone, resultEarly, resultStale, resultAlreadyDone, resultMissing, resultFailed, resultDead, resultUnknownKind, resultSnoozed,
	resultSkipped,
}

// unknownLabel stands for every kind that isn't registered, so that a sender can't grow the metrics.
const unknownLabel = "unknown"

type metrics struct {
	settled   *prometheus.CounterVec
	lag       *prometheus.HistogramVec
	expired   *prometheus.CounterVec
	abandoned prometheus.Counter
	retried   prometheus.Counter
	pauses    prometheus.Counter
	settling  prometheus.Histogram
	kinds     map[string]*kindMetrics // those with a handler; never changed
}

// kindMetrics are a kind's own, looked up once: the hot path counts each task.
type kindMetrics struct {
	lag     prometheus.Observer
	settled map[Result]prometheus.Counter
}

// lagBuckets have the promise's bound, a second, and 15 ms, near which a healthy p99 lies.
var lagBuckets = []float64{.001, .0025, .005, .01, .015, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

var settleBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newMetrics(reg prometheus.Registerer, handlers map[string]*Handler) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return metric.Shared(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	m := &metrics{
		settled: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_tasks_settled_total", Help: "Looks at a hint, by what came of them.",
		}, []string{"kind", "result"})),
		lag: metric.Shared(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duetime_fire_lag_seconds", Help: "From the due time (or the making, if later) to the commit of the effect.",
			Buckets: lagBuckets,
		}, []string{"kind"})),
		expired: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_hints_let_go_total", Help: "Hints given up for the sweep to put again, by why.",
		}, []string{"reason"})),
		abandoned: counter("duetime_handlers_abandoned_total", "Handlers that ignored the end of their context."),
		retried:   counter("duetime_batches_retried_total", "Transactions rolled back for a deadlock, a lock wait or a conflict."),
		pauses:    counter("duetime_worker_pauses_total", "Times that the worker paused because MySQL was away."),
		settling: metric.Shared(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "duetime_settle_duration_seconds", Help: "Duration of one batch's transaction that committed, handlers included.",
			Buckets: settleBuckets,
		})),
		kinds: map[string]*kindMetrics{},
	}
	for kind := range handlers {
		m.kinds[kind] = m.ofKind(kind)
	}
	return m
}

func (m *metrics) ofKind(label string) *kindMetrics {
	k := &kindMetrics{lag: m.lag.WithLabelValues(label), settled: map[Result]prometheus.Counter{}}
	for _, r := range results {
		k.settled[r] = m.settled.WithLabelValues(label, string(r))
	}
	return k
}

func (m *metrics) count(kind string, r Result) {
	if k := m.kinds[kind]; k != nil {
		k.settled[r].Inc()
		return
	}
	m.settled.WithLabelValues(unknownLabel, string(r)).Inc()
}

func (m *metrics) observeLag(kind string, lag time.Duration) {
	if k := m.kinds[kind]; k != nil {
		k.lag.Observe(lag.Seconds())
		return
	}
	m.lag.WithLabelValues(unknownLabel).Observe(lag.Seconds())
}
