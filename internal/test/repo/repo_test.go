package repo_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the repository's root: they read its files.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
