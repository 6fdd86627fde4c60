package reconcile

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/recurrence"
)

type metrics struct {
	repairs      *prometheus.CounterVec
	purged       prometheus.Counter
	archived     prometheus.Counter
	purgeBehind  prometheus.Gauge
	drift        *prometheus.CounterVec
	rehomed      prometheus.Counter
	toRehome     prometheus.Gauge
	mended       prometheus.Counter
	groupsMended prometheus.Counter
	ticks        *recurrence.Metrics
	operated     *prometheus.CounterVec
	operations   prometheus.Gauge
	kinds        sync.Map     // names of kinds that are labels of drift
	named        atomic.Int64 // kinds that asked for a label
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		repairs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_index_repairs_total", Help: "Index entries that reconcile put, moved or removed, by the pass that found them.",
		}, []string{"reason"}),
		purged: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_tasks_purged_total", Help: "Finished rows removed after their retention.",
		}),
		archived: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_tasks_archived_total", Help: "Ended tasks that were moved out of the table of pending ones.",
		}),
		purgeBehind: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_purge_behind_seconds", Help: "How long ago the retention of the next finished row to remove ended; 0 when none is left.",
		}),
		drift: f.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_index_drift_total",
			Help: "Entries that a sweep found otherwise than their rows say: missing, extra, or moved to another time. Rebuilds, repeated hints and changes of the last second don't count.",
		}, []string{"kind", "direction"}),
		rehomed: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_rows_rehomed_total", Help: "Rows moved to the shard of their owner's place.",
		}),
		toRehome: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_rows_to_rehome", Help: "Rows that a change of the number of shards still has to move, about; 0 while none is going on.",
		}),
		mended: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_recurrences_mended_total",
			Help: "Recurrences whose task had ended, or vanished, without a next one: ended by SQL of another program, or restored in part.",
		}),
		groupsMended: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_group_members_mended_total",
			Help: "Members of groups that had ended, or were retried, without being counted: by SQL of another program, or by an older release.",
		}),
		ticks: recurrence.NewMetrics(reg, recurrence.TicksTotal),
		operated: f.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_operation_rows_total",
			Help: "Tasks that operations have come to: changed, ended (before their turn came), or left_alone " +
				"(locked by others for too long, a key that is taken, a time out of bounds).",
		}, []string{"verb", "outcome"}),
		operations: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_operations_running",
			Help: "Operations that the leader works on, or that wait for their turn; 0 in a daemon that does not lead.",
		}),
	}
}

// Directions of drift.
const (
	driftMissing = "missing" // the row is pending, the index lacks it
	driftExtra   = "extra"   // the index has what no pending row asks for
	driftMoved   = "moved"   // both, at different times
)

const (
	maxKinds       = 100 // labels: rows of other programs can name any number of kinds
	otherKind      = "other"
	unreadableKind = "unreadable"
)

// countDrift counts repairs that a sweep is about to make, and returns their number.
func (m *metrics) countDrift(repairs []protocol.Repair) int {
	for _, r := range repairs {
		direction := driftMoved
		switch {
		case r.Right == nowhere:
			direction = driftExtra
		case r.Seen == nowhere:
			direction = driftMissing
		}
		m.drift.WithLabelValues(m.kind(r.Task.Kind), direction).Inc()
	}
	return len(repairs)
}

// kind returns the label of a kind: its name for the first maxKinds kinds.
func (m *metrics) kind(name string) string {
	if _, known := m.kinds.Load(name); known {
		return name
	}
	if m.named.Add(1) > maxKinds {
		return otherKind
	}
	m.kinds.Store(name, nil)
	return name
}
