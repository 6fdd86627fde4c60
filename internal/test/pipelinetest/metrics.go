package pipelinetest

import (
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape reads the process's metrics as Prometheus does, by name.
func (a App) Scrape(t testing.TB) map[string]*dto.MetricFamily {
	t.Helper()
	status, text := a.Get(t, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("%s: /metrics answers %d: %s", a.Name, status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	Must(t, err)
	return families
}
