package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// The page's code is the examples' code, line by line.
func TestPageShowsThisCode(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	have := map[string]bool{}
	for _, pattern := range []string{"examples/orm/*/*.go", "examples/sqlc/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		pipelinetest.Must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			pipelinetest.Must(t, err)
			for line := range strings.Lines(string(text)) {
				have[strings.TrimSpace(line)] = true
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/ORM.md"))
	pipelinetest.Must(t, err)
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 8 {
		t.Fatalf("only %d pieces of code are on the page", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(code) {
			if line = strings.TrimSpace(line); line != "" && !have[line] {
				t.Errorf("the page shows a line that no example has: %s", line)
			}
		}
	}
}
