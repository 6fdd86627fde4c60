package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/config"
	"github.com/duetime/duetime/internal/pet"
)

const page = "../../docs/CONFIG.md"

// TestPageHasTheTable compares the documented table with the keys that the program accepts. With DUETIME_UPDATE_CONFIG=1
// it writes the table instead.
func TestPageHasTheTable(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), "checked by a test -->\n")
	got, after, ended := strings.Cut(rest, "<!-- end of config table -->")
	if !found || !ended {
		t.Fatal("docs/CONFIG.md has no config table")
	}
	want := strings.TrimSpace(config.Table(pet.DefaultSettings(), config.DefaultConsole(), config.DefaultDeliver(), config.DefaultAPI()))
	if os.Getenv("DUETIME_UPDATE_CONFIG") != "" {
		text := before + "checked by a test -->\n" + want + "\n<!-- end of config table -->" + after
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, strings.TrimSpace(got)); diff != "" {
		t.Errorf("docs/CONFIG.md's table differs; run DUETIME_UPDATE_CONFIG=1 go test ./internal/config (-want +got):\n%s", diff)
	}
}
