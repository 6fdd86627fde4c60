package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestWaitsForItsMigration starts each process on the schema of the version before: it says what to run, and goes on once
// that was done.
func TestWaitsForItsMigration(t *testing.T) {
	pipelinetest.Nightly(t)
	t.Parallel()
	for _, name := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pipelinetest.SharedDeployment(t)
			p.DSN, p.Previous = pipelinetest.MySQL(t).NewSchema(t), true
			p.Migrate(t)
			p.Previous = false
			proc := p.Start(t, name)
			if line := proc.WaitLine(t, `"msg":"waiting"`); !strings.Contains(line, "older than this program, run duetime migrate up") {
				t.Errorf("says %s, without what to do", line)
			}
			wantHealth(t, proc, http.StatusServiceUnavailable)
			p.Migrate(t)
			proc.WaitReady(t)
			proc.Stop(t)
		})
	}
}
