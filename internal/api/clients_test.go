package api_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// Clients that others' generators make of the OpenAPI file and of the messages compile, call, and read the fields and reasons of errors.
func TestGeneratedClients(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	w := newWorld(t)
	out, err := exec.CommandContext(t.Context(), "../../scripts/clients", w.url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, said := range []string{"openapi-typescript: 5 calls", "protoc-gen-es: 2 calls", "openapi-python-client: 4 calls"} {
		if !strings.Contains(string(out), said) {
			t.Errorf("%s: not made: %s", said, out)
		}
	}
}
