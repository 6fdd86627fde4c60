package pipelinetest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// OtherClock writes a replacement for the standard library's clock, for go build -overlay: one that is CLOCK_AHEAD seconds
// ahead once the program has run for CLOCK_AFTER seconds. The monotonic clock is not changed, as when a machine's clock is set.
func OtherClock(t testing.TB) (overlay string) {
	t.Helper()
	needServers(t)
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	Must(t, err)
	path := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(path) //nolint:gosec // of the Go installation
	Must(t, err)
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), now) != 1 {
		t.Fatalf("the test doesn't know this version of %s", path)
	}
	text := strings.Replace(string(source), now, now+"\tif mono-startNano >= int64(clockAfter)*1e9 {\n\t\tsec += int64(clockAhead)\n\t}\n", 1)
	text = strings.Replace(text, "\nimport (\n", "\nimport (\n\t\"syscall\"\n", 1) + `
var clockAhead, clockAfter = clockSetting("CLOCK_AHEAD"), clockSetting("CLOCK_AFTER")

func clockSetting(name string) int {
	text, _ := syscall.Getenv(name)
	n, _ := atoi(text)
	return n
}
`
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	Must(t, os.WriteFile(changed, []byte(text), 0o600)) //nolint:gosec // in the test's folder
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	Must(t, err)
	Must(t, os.WriteFile(overlay, replace, 0o600))
	return overlay
}
