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
	"unicode"
)

// TestNames refuses declared names that contain a word which docs/GLOSSARY.md refuses.
func TestNames(t *testing.T) {
	t.Parallel()
	refused := refusedWords(t)
	files := 0
	for _, root := range []string{"cmd", "examples", "internal", "pkg"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, name := range declared(file) {
				for _, word := range wordsOf(name.Name) {
					if slices.Contains(refused, word) {
						t.Errorf("%s: %s: the glossary refuses %q", set.Position(name.Pos()), name.Name, word)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 300 {
		t.Errorf("only %d files were read", files)
	}
}

// refusedWords reads the last table of the glossary.
func refusedWords(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("docs/GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- refused names")
	table, _, ended := strings.Cut(table, "<!-- end of refused names -->")
	var words []string
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(first, -1) {
			words = append(words, strings.ToLower(m[1]))
		}
	}
	if !ended || len(words) < 10 {
		t.Fatalf("the glossary refuses only %v", words)
	}
	return words
}

// declared returns the names that a file declares: of functions, types, constants, variables, fields and parameters.
func declared(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					if name, plain := left.(*ast.Ident); plain {
						names = append(names, name)
					}
				}
			}
		}
		return true
	})
	return names
}

// wordsOf splits letGoOf into let, go, of and letgo, goof: a refused word may have two parts.
func wordsOf(name string) []string {
	var words []string
	start := 0
	for i, r := range name {
		if i > start && unicode.IsUpper(r) {
			words = append(words, strings.ToLower(name[start:i]))
			start = i
		}
	}
	words = append(words, strings.ToLower(name[start:]))
	for i := range len(words) - 1 {
		words = append(words, words[i]+words[i+1])
	}
	return words
}

// TestGlossary refuses a word that has two rows in one table.
func TestGlossary(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	for section := range strings.SplitSeq(string(text), "\n## ") {
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \|`).FindAllStringSubmatch(section, -1) {
			for word := range strings.SplitSeq(m[1], ", ") {
				if seen[word] {
					t.Errorf("the glossary says twice what %q means", word)
				}
				seen[word] = true
			}
		}
	}
}
