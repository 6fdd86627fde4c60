package process

import (
	"cmp"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo is a gauge of value 1 whose labels say which build runs. Dashboards join on it, and show a half-done upgrade.
func buildInfo(name string) prometheus.Collector {
	labels := prometheus.Labels{"process": name, "version": "unknown", "revision": "unknown", "goversion": "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		labels["version"] = cmp.Or(info.Main.Version, "unknown")
		labels["goversion"] = info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				labels["revision"] = s.Value
			}
		}
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "duetime_build_info", Help: "Always 1; the labels say which process this is and what it was built from.", ConstLabels: labels,
	}, func() float64 { return 1 })
}
