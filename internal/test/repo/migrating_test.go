package repo_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestMigratingShowsTheExample looks for each block of Go of the page in the example, whose tests run it.
func TestMigratingShowsTheExample(t *testing.T) {
	t.Parallel()
	example := flat(textOf(t, "examples/moving/moving.go"))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(textOf(t, "docs/MIGRATING.md"), -1)
	if len(blocks) < 5 {
		t.Errorf("only %d blocks were found", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(example, strings.TrimSpace(flat(block[1]))) {
			t.Errorf("examples/moving/moving.go has no lines\n%s", block[1])
		}
	}
}

// flat leaves out how lines are indented.
func flat(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
