package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// How many names pkg/task exports, and the other public packages together, but for the generated pkg/duetimev1.
const (
	maxExportedTask = 179
	maxExported     = 455
)

// TestExportedNames counts what services can name: types, functions, methods, constants and variables. A name that no service needs
// belongs to an internal package.
func TestExportedNames(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("pkg/*")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	lists := map[string][]string{}
	for _, folder := range append(folders, ".") {
		if folder != "pkg/task" && folder != "pkg/duetimev1" {
			lists[folder] = exported(t, folder)
			total += len(lists[folder])
		}
	}
	if names := exported(t, "pkg/task"); len(names) == 0 || len(names) > maxExportedTask {
		t.Errorf("pkg/task exports %d names, want at most %d: %s", len(names), maxExportedTask, strings.Join(names, " "))
	}
	if total > 0 && total <= maxExported {
		return
	}
	t.Errorf("%d names are exported, want at most %d", total, maxExported)
	for folder, names := range lists {
		t.Logf("%s: %d: %s", folder, len(names), strings.Join(names, " "))
	}
}

// exported returns the names that a package exports, methods with their types.
func exported(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			names = append(names, exportedBy(d)...)
		}
	}
	slices.Sort(names)
	return names
}

func exportedBy(d ast.Decl) (names []string) {
	add := func(receiver string, all ...*ast.Ident) {
		for _, name := range all {
			if name.IsExported() {
				names = append(names, receiver+name.Name)
			}
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if receiver, public := receiverOf(d); public {
			add(receiver, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				add("", s.Name)
			case *ast.ValueSpec:
				add("", s.Names...)
			}
		}
	}
	return names
}

// receiverOf returns the type of a method with a dot, and whether it is exported; "" for a function.
func receiverOf(f *ast.FuncDecl) (name string, public bool) {
	if f.Recv == nil {
		return "", true
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	id, ok := of.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name + ".", id.IsExported()
}
