package repo_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestImportsCostLittle checks what a service expects of an import: no profiles on net/http's default mux, no exporter of traces, no page templates, and
// no module that only other programs or tests need.
func TestImportsCostLittle(t *testing.T) {
	t.Parallel()
	library := []string{
		"net/http/pprof", "html/template", "go.opentelemetry.io/otel/exporters", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/proto",
		"modernc.org/", "github.com/mattn/", "github.com/lib/pq", "github.com/jackc/", "github.com/alicebob/", "github.com/spf13/", "charm.land/",
		"github.com/schollz/", "google.golang.org/grpc", "connectrpc.com/",
	}
	single := slices.Concat(library, []string{"github.com/segmentio/", "github.com/go-zookeeper/", "github.com/redis/", "github.com/klauspost/"})
	for path, unwanted := range map[string][]string{".": library, "./pkg/duetimetest": library, "./pkg/embedded": single} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", path).Output()
		pipelinetest.Must(t, err)
		for _, dep := range strings.Fields(string(out)) {
			if slices.ContainsFunc(unwanted, func(prefix string) bool { return strings.HasPrefix(dep, prefix) }) {
				t.Errorf("%s links %s", path, dep)
			}
		}
	}
}
