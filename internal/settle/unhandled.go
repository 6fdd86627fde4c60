package settle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/metric"
	"github.com/duetime/duetime/pkg/task"
)

const (
	warnInterval = time.Minute // between two warnings of one kind and queue
	maxKinds     = 100         // labels: rows of other programs can name any number of kinds
	otherKinds   = "other"
)

// unhandled warns of kinds of which this worker gets tasks but has no handler: a mistyped name, another service on the
// same queue, or a kind that was removed before its tasks were done.
type unhandled struct {
	log   *slog.Logger
	total *prometheus.CounterVec

	mu   sync.Mutex
	seen map[unhandledKind]*unhandledSeen
}

type unhandledKind struct{ queue, kind string }

type unhandledSeen struct {
	warned time.Time
	n      int // tasks since then
}

func newUnhandled(reg prometheus.Registerer, log *slog.Logger) *unhandled {
	u := &unhandled{
		log: log, seen: map[unhandledKind]*unhandledSeen{},
		total: metric.Shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_tasks_unhandled_total",
			Help: "Times that a task was put off because the worker that took it has no handler for its kind.",
		}, []string{"queue", "kind"})),
	}
	u.total.WithLabelValues(otherKinds, otherKinds) // shows the metric before the first count
	return u
}

// count counts a task, and warns at most once per warnInterval of a queue and kind.
func (u *unhandled) count(ctx context.Context, t task.Task, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := unhandledKind{t.Queue, t.Kind}
	s := u.seen[of]
	if s == nil {
		if len(u.seen) >= maxKinds {
			of = unhandledKind{otherKinds, otherKinds}
			s = u.seen[of]
		}
		if s == nil {
			s = &unhandledSeen{}
			u.seen[of] = s
		}
	}
	u.total.WithLabelValues(of.queue, of.kind).Inc()
	s.n++
	if !s.warned.IsZero() && now.Sub(s.warned) < warnInterval {
		return
	}
	u.log.WarnContext(ctx, "no handler for kind, tasks put off", slog.String("queue", t.Queue), slog.String("kind", t.Kind),
		slog.Int("n", s.n), slog.String("task_id", t.ID.String()))
	s.warned, s.n = now, 0
}
