package repo_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestOneDoor checks that the rows of tasks are written, committed and put into the index in the places that the ledger's documentation
// names. A second place would have to repeat what a lost answer, a rollback to a savepoint, or a failed put asks for.
func TestOneDoor(t *testing.T) {
	t.Parallel()
	for what, door := range map[string]struct {
		call  *regexp.Regexp
		roots []string
		skip  string
		files []string
	}{
		"COMMIT": {
			regexp.MustCompile(`\.Commit\(\)`),
			[]string{"cmd", "internal", "pkg"},
			"internal/store/",
			[]string{"internal/ledger/transact.go", "pkg/schedule/join.go"}, // that one is the caller's own
		},
		"an exported method that writes transitions": {
			regexp.MustCompile(`\nfunc \([^)]*\) [A-Z][^\n]*\btransition\.Change\b`),
			[]string{"internal/store"},
			"",
			[]string{"internal/store/autocommit.go", "internal/store/write.go"},
		},
		"a put of tasks": {
			regexp.MustCompile(`\.(Enqueue|PutAndWait|PutDirectly|Offer)\(`),
			[]string{"cmd", "internal", "pkg"},
			"internal/indexwriter/",
			[]string{"internal/ledger/committed.go", "internal/ledger/ledger.go", "internal/ledger/run.go", "internal/settle/apply.go"},
		},
	} {
		var found []string
		for _, root := range door.roots {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
					strings.HasPrefix(path, "internal/test/") || door.skip != "" && strings.HasPrefix(path, door.skip) {
					return err
				}
				text, err := os.ReadFile(path)
				if err == nil && door.call.Match(text) {
					found = append(found, path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if slices.Sort(found); !slices.Equal(found, door.files) {
			t.Errorf("%s stands in %v, want it in %v", what, found, door.files)
		}
	}
}
