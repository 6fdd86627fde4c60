package config

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const readme = "../../README.md"

// TestReadmeHasTheTable keeps the table that users read equal to the keys that the program takes. With
// DUETIME_UPDATE_README=1 it writes the table instead.
func TestReadmeHasTheTable(t *testing.T) {
	b, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), "checked by a test -->\n")
	got, after, ended := strings.Cut(rest, "<!-- end of config table -->")
	if !found || !ended {
		t.Fatal("README.md has no config table")
	}
	want := strings.TrimSpace(Table())
	if os.Getenv("DUETIME_UPDATE_README") != "" {
		text := before + "checked by a test -->\n" + want + "\n<!-- end of config table -->" + after
		if err := os.WriteFile(readme, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, strings.TrimSpace(got)); diff != "" {
		t.Errorf("README.md's table differs; run DUETIME_UPDATE_README=1 go test ./internal/config (-want +got):\n%s", diff)
	}
}
