package stream

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	undecodable *prometheus.CounterVec // what: queue, compensation
	remade      prometheus.Counter
	skipped     prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		undecodable: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "duetime_stream_undecodable_total",
			Help: "Messages that could not be decoded, by what they were read as.",
		}, []string{"what"}),
		remade: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_stream_readers_remade_total",
			Help: "Partition readers given a new connection pool because they made no progress.",
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "duetime_stream_skipped_total",
			Help: "Offsets stepped over because the broker serves no record there.",
		}),
	}
	if r == nil {
		return m, nil
	}
	err := errors.Join(register(r, &m.undecodable), register(r, &m.remade), register(r, &m.skipped))
	return m, err
}

// register takes over the collector that stands already: two adapters in one process count together.
func register[C prometheus.Collector](r prometheus.Registerer, c *C) error {
	err := r.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if !errors.As(err, &already) {
		return err
	}
	standing, ok := already.ExistingCollector.(C)
	if !ok {
		return err
	}
	*c = standing
	return nil
}
