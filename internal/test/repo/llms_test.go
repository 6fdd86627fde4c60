package repo_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLLMsAreCurrent compares the files for language models with what scripts/llms makes of today's pages.
func TestLLMsAreCurrent(t *testing.T) {
	t.Parallel()
	fresh := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "scripts/llms", fresh).CombinedOutput()
	if err != nil {
		t.Fatalf("scripts/llms: %v\n%s", err, out)
	}
	for _, name := range []string{"llms.txt", "llms-full.txt"} {
		if got := textOf(t, name); got != textOf(t, filepath.Join(fresh, name)) {
			t.Errorf("%s is not what the pages say: run scripts/llms", name)
		}
	}
}
