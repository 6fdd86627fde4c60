package repo_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDoorsOfFreshReads reads the table of docs/GUIDE.md that says by which door each verb of timers is there: each name of its first two
// columns exists.
func TestDoorsOfFreshReads(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(guide), "\n| in Go | by the [API](API.md) |")
	table, _, _ = strings.Cut(table, "\n\n")
	var calls []string
	for _, name := range []string{"task", "owner"} {
		proto, err := os.ReadFile("proto/duetime/v1/" + name + ".proto")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^  rpc (\w+)\(`).FindAllStringSubmatch(string(proto), -1) {
			calls = append(calls, m[1])
		}
	}
	library := exported(t, "pkg/schedule")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) < 5 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(row, "|")
		for cell, known := range [][]string{library, calls} {
			for _, m := range regexp.MustCompile("`([A-Z]\\w*(?:\\.\\w+)?)`").FindAllStringSubmatch(cells[cell+1], -1) {
				if !slices.Contains(known, m[1]) {
					t.Errorf("there is no %s: %s", m[1], row)
				}
			}
		}
	}
}
