package process

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/duetime/duetime/internal/build"
)

// buildInfo is a gauge of value 1 whose labels say which build runs. Dashboards join on it, and show a half-done upgrade.
func buildInfo(name string) prometheus.Collector {
	b := build.Read()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "duetime_build_info", Help: "Always 1; the labels say which process this is and what it was built from.",
		ConstLabels: prometheus.Labels{
			"process": name, "version": b.Version, "revision": b.Revision, "goversion": b.Go, "tz": b.TZ,
		},
	}, func() float64 { return 1 })
}
