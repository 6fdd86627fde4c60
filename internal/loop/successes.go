package loop

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Successes shows when each loop of a process last had a pass without an error. A process makes one Successes.
type Successes struct{ at *prometheus.GaugeVec }

// NewSuccesses makes the gauge. reg may be nil. A loop has no sample before its first success.
func NewSuccesses(reg prometheus.Registerer) *Successes {
	s := &Successes{at: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "duetime_loop_last_success_timestamp_seconds",
		Help: "When each loop last got through a pass without an error, in Unix seconds of this machine's clock.",
	}, []string{"loop"})}
	if reg != nil {
		reg.MustRegister(s.at)
	}
	return s
}

// Of returns the function that a loop calls after a pass without an error: Config.Succeeded. A nil s records nothing.
func (s *Successes) Of(loop string) func() {
	if s == nil {
		return func() {}
	}
	gauge := sync.OnceValue(func() prometheus.Gauge { return s.at.WithLabelValues(loop) })
	return func() { gauge().SetToCurrentTime() }
}
