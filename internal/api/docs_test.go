package api

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found are the texts that the pattern's group finds, sorted and once each.
func found(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// The page and the OpenAPI file list each reason of an error, and the page each call that a role may make.
func TestPageOfReasonsAndRoles(t *testing.T) {
	t.Parallel()
	page := readFile(t, "../../docs/API.md")
	_, page, _ = strings.Cut(page, "\n## Errors\n")
	reasons, tokens, _ := strings.Cut(page, "\n## Tokens\n")
	made := found(`(?m)^\treason\w+ += "([A-Z_]+)"`, readFile(t, "errors.go"))
	if d := cmp.Diff(made, found("`([A-Z_]+)`", strings.Join(found(`(?m)^\|[^|]*\|([^|]*)\|`, reasons), " "))); d != "" {
		t.Errorf("reasons of docs/API.md (-made +told):\n%s", d)
	}
	_, names, _ := strings.Cut(readFile(t, "../../proto/openapi.yaml"), "\n    Reason:\n")
	names, _, _ = strings.Cut(names, "description:")
	if d := cmp.Diff(made, found(`([A-Z_]+)`, names)); d != "" {
		t.Errorf("reasons of proto/openapi.yaml, made of proto/tools/schemas.yaml (-made +listed):\n%s", d)
	}
	for role, name := range map[Role]string{RoleRead: "read", RoleOperate: "operate"} {
		row := strings.Join(found("(?m)^\\| `"+name+"` \\|(.*)$", tokens), " ")
		var left []string
		for procedure, needed := range roles {
			service, ours := strings.CutPrefix(path.Dir(procedure), "/duetime.v1.")
			if method := path.Base(procedure); ours && needed == role && !strings.Contains(row, "`"+method+"`") && !strings.Contains(row, service) {
				left = append(left, method)
			}
		}
		if len(left) > 0 {
			t.Errorf("the role %s of docs/API.md lacks %v", name, left)
		}
	}
}
