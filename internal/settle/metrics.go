package settle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/internal/metric"
)

// Result is how one look at a hint ended: a label value.
type Result string

const (
	resultDone        Result = "done"         // the effect has committed
	resultEarly       Result = "early"        // the row is not due; the hint is held
	resultStale       Result = "stale"        // the row has a newer version
	resultAlreadyDone Result = "already_done" // the task had ended before the look
	resultMissing     Result = "missing"      // there is no row
	resultFailed      Result = "failed"       // an attempt was charged
	resultDead        Result = "dead"         // the last attempt was charged, or the task was discarded
	resultUnknownKind Result = "unknown_kind" // re-armed: this worker has no handler
	resultSnoozed     Result = "snoozed"      // re-armed by the handler
	resultSkipped     Result = "skipped"      // cancelled: later than its kind's catch-up window
	resultBlocked     Result = "blocked"      // cancelled: the owner is blocked
	resultPaused      Result = "paused"       // re-armed: a pause of its owner or kind has put it off to its end
	resultLimited     Result = hold.Limited   // re-armed: the rate of its owner has put it off to its slot
	resultBehind      Result = "behind"       // held, or re-armed: an earlier task of its order key has not ended
	resultRead        Result = "read"         // the effect has committed in the transaction of a caller who reads: see reader.go
)

// results are the label values that the settled counter shows from the start.
var results = []Result{
	resultDone, resultEarly, resultStale, resultAlreadyDone, resultMissing, resultFailed, resultDead, resultUnknownKind, resultSnoozed,
	resultSkipped, resultBlocked, resultPaused, resultLimited, resultBehind, resultRead,
}

// unknownLabel is the label of all kinds without a handler: rows of other programs can name any number of kinds.
const unknownLabel = "unknown"

type metrics struct {
	settled   *prometheus.CounterVec
	lag       *prometheus.HistogramVec
	limitWait *prometheus.HistogramVec
	expired   *prometheus.CounterVec
	abandoned prometheus.Counter
	retried   prometheus.Counter
	pauses    prometheus.Counter
	settling  prometheus.Histogram
	kinds     map[string]*kindMetrics // of kinds with a handler; never changes
}

// kindMetrics are the metrics of one kind. They are looked up once, because the hot path counts each task.
type kindMetrics struct {
	lag     prometheus.Observer
	settled map[Result]prometheus.Counter
}

// lagBuckets include 1 s, the promised bound, and 15 ms, near a healthy p99.
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
			Name: "duetime_fire_lag_seconds", Help: "From the due time (or the making, or when its queue's limit or a pause let the task run, if later) to the commit of the effect.",
			Buckets: lagBuckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 200, // up to half an hour
		}, []string{"kind"})),
		limitWait: metric.Shared(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "duetime_limit_wait_seconds", Help: "How long due tasks waited for the limit of their queue; those that did not wait are not counted.",
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

func (m *metrics) observeLimitWait(kind string, waited time.Duration) {
	if m.kinds[kind] == nil {
		kind = unknownLabel
	}
	m.limitWait.WithLabelValues(kind).Observe(waited.Seconds())
}
