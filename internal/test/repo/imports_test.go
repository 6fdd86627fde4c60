package repo_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestImportingRegistersNoProfiles checks what a service expects of an import: no profiles on net/http's default mux, and
// no exporter of traces.
func TestImportingRegistersNoProfiles(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "./pkg/embedded", "./pkg/duetimetest").Output()
	pipelinetest.Must(t, err)
	deps := strings.Fields(string(out))
	for _, unwanted := range []string{"net/http/pprof", "go.opentelemetry.io/otel/exporters/otlp/otlptrace"} {
		if slices.Contains(deps, unwanted) {
			t.Errorf("the libraries import %s", unwanted)
		}
	}
}
