package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
)

// metrics are the worker's own; what comes of hints is counted where they are settled.
type metrics struct {
	held     prometheus.Gauge
	unburied prometheus.Counter
	tidied   prometheus.Gauge
	found    *prometheus.CounterVec
	degraded *prometheus.GaugeVec
	looks    prometheus.Histogram
	limited  *prometheus.GaugeVec

	hooks hookMetrics
}

// hookMetrics are those of hooks, which readers have too.
type hookMetrics struct{ unreported, panics prometheus.Counter }

var lookBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

func newHookMetrics(reg prometheus.Registerer) hookMetrics {
	return hookMetrics{
		unreported: newCounter(reg, "duetime_events_dropped_total", "Events that reached no hook: hooks were slow, or the worker stopped."),
		panics:     newCounter(reg, "duetime_hook_panics_total", "Panics of hooks, which were recovered."),
	}
}

func newCounter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	return metric.Shared(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return metric.Shared(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	return &metrics{
		held:     gauge("duetime_hints_held", "Hints held for their moment or being worked on."),
		unburied: newCounter(reg, "duetime_dead_letters_lost_total", "Dead letters that were refused three times and passed over."),
		tidied: gauge("duetime_worker_last_success_timestamp_seconds",
			"When the worker's own loop last got through a pass without an error, in Unix seconds of this machine's clock."),
		found: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_tasks_found_total", Help: "Tasks found by a look at MySQL, which no hint had brought to this worker, by why it took them.",
		}, []string{"queue", "cause"})),
		degraded: metric.Shared(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duetime_worker_degraded", Help: "1 while looks at MySQL stand in for hints of this queue.",
		}, []string{"queue"})),
		limited: metric.Shared(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "duetime_queue_limited", Help: "1 while due tasks of this queue wait here for its limit of rate or concurrency.",
		}, []string{"queue"})),
		looks: metric.Shared(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "duetime_look_duration_seconds", Help: "Duration of one look at MySQL for due tasks.", Buckets: lookBuckets,
		})),
		hooks: newHookMetrics(reg),
	}
}
