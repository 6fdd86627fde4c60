package command

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// electionMetrics reports whether an elected process leads.
type electionMetrics struct {
	leader    prometheus.Gauge
	epoch     prometheus.Gauge
	terms     prometheus.Counter
	connected atomic.Pointer[func() bool] // to ZooKeeper; nil until the elector is open
}

// leaderGauges names the gauge of each election. Two names let one alert on each find a missing leader.
var leaderGauges = map[string]string{"event": "duetime_leader", "daemon": "duetime_daemon_leader"}

func newElectionMetrics(reg prometheus.Registerer, name string) *electionMetrics {
	f, label := promauto.With(reg), prometheus.Labels{"name": name}
	e := &electionMetrics{
		leader: f.NewGauge(prometheus.GaugeOpts{
			Name: leaderGauges[name], Help: "1 while this " + name + " process leads, else 0.",
		}),
		epoch: f.NewGauge(prometheus.GaugeOpts{
			Name: "duetime_epoch", Help: "Epoch of the newest term that this process has led; 0 before the first.", ConstLabels: label,
		}),
		terms: f.NewCounter(prometheus.CounterOpts{
			Name: "duetime_leader_transitions_total", Help: "Terms that this process has begun to lead.", ConstLabels: label,
		}),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "duetime_zookeeper_connected", Help: "1 while this process is connected to ZooKeeper, else 0.",
	}, e.zookeeper)
	return e
}

func (e *electionMetrics) zookeeper() float64 {
	if connected := e.connected.Load(); connected != nil && (*connected)() {
		return 1
	}
	return 0
}

func (e *electionMetrics) changed(leading bool, epoch int64) {
	if !leading {
		e.leader.Set(0)
		return
	}
	e.leader.Set(1)
	e.epoch.Set(float64(epoch))
	e.terms.Inc()
}
