package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	goFile   = regexp.MustCompile(`\b(?:cmd|internal|pkg|migrations)(?:/[\w-]+)+(?:\.\w+)*`)
	testName = regexp.MustCompile("`(Test\\w+)")
	raceName = regexp.MustCompile("`TestRaces/([^`]*)`")
)

// races has the scripts of TestRaces.
const races = "internal/test/protocoltest/testdata/"

// TestDocsNameWhatIsThere looks for each file, function, test and script that docs/ARCHITECTURE.md names.
func TestDocsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, steps := declaredTests(t), 0
	for line := range strings.Lines(string(text)) {
		for _, path := range goFile.FindAllString(line, -1) {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		for _, m := range testName.FindAllStringSubmatch(line, -1) {
			if !tests[m[1]] {
				t.Errorf("there is no %s: %s", m[1], line)
			}
		}
		for _, m := range raceName.FindAllStringSubmatch(line, -1) {
			if _, err := os.Stat(races + m[1] + ".txt"); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 || filepath.Ext(strings.TrimSpace(cells[2])) != ".go" {
			continue
		}
		steps++
		names := functionsOf(t, strings.TrimSpace(cells[2]))
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[3], -1) {
			if !slices.Contains(names, m[1]) {
				t.Errorf("%s has no function %s", strings.TrimSpace(cells[2]), m[1])
			}
		}
	}
	if steps < 30 {
		t.Errorf("only %d steps were found", steps)
	}
}

func functionsOf(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	var names []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// declaredTests returns the names of all tests, of every module.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
