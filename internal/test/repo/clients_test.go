package repo_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// The package for Python, whose types are written by hand, has the fields and names of the OpenAPI file. The one for TypeScript is
// made of the file.
func TestPythonPackageHasEachFieldAndName(t *testing.T) {
	t.Parallel()
	types := textOf(t, "clients/python/src/duetime/_types.py")
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Enum       []string
				Properties map[string]struct {
					Title string
					Enum  []string
				}
			}
		}
	}
	pipelinetest.Must(t, yaml.Unmarshal([]byte(textOf(t, openAPI)), &document))
	schemas := document.Components.Schemas
	for class, schema := range map[string]string{
		"NewTask": "duetime.v1.NewTask", "Task": "duetime.v1.Task", "Scheduled": "duetime.v1.ScheduleResponse", "Left": "duetime.v1.AwaitDueResponse",
	} {
		var want []string
		for _, property := range schemas[schema].Properties {
			want = append(want, property.Title)
		}
		compareNames(t, class, want, `(?m)^    ([a-z]\w*): [A-Z]?[a-z]`, partOf(t, types, "class "+class+":\n", "\n\n\n"))
	}
	for name, names := range map[string][]string{
		"Code": schemas["Error"].Properties["code"].Enum, "Reason": schemas["Reason"].Enum, "State": schemas["duetime.v1.State"].Enum,
		"Outcome": schemas["duetime.v1.Outcome"].Enum, "KeyMode": schemas["duetime.v1.KeyMode"].Enum,
	} {
		want := slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "_UNSPECIFIED") })
		compareNames(t, name, want, `"(\w+)"`, partOf(t, types, "\n"+name+": TypeAlias = Literal[", "]\n"))
	}
}

// partOf is what stands between two texts.
func partOf(t *testing.T, text, from, to string) string {
	t.Helper()
	_, part, found := strings.Cut(text, from)
	part, _, _ = strings.Cut(part, to)
	if !found {
		t.Errorf("there is no %q", from)
	}
	return part
}

func compareNames(t *testing.T, what string, want []string, pattern, text string) {
	t.Helper()
	var got []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// A release of the packages has the number of duetime's.
func TestPackagesHaveTheVersionOfTheRelease(t *testing.T) {
	t.Parallel()
	newest := regexp.MustCompile(`(?m)^## \[(\d.*?)\]`).FindStringSubmatch(textOf(t, "CHANGELOG.md"))[1]
	for file, pattern := range map[string]string{
		"clients/typescript/package.json":      `(?m)^  "version": "(.+)"`,
		"clients/typescript/package-lock.json": `"name": "duetime",\s+"version": "(.+)"`, // it stands there twice
		"clients/python/pyproject.toml":        `(?m)^version = "(.+)"`,
	} {
		want := []string{newest}
		if strings.HasSuffix(file, "-lock.json") {
			want = []string{newest, newest}
		}
		compareNames(t, file, want, pattern, textOf(t, file))
	}
}

// npm and pip make the packages of their folders alone.
func TestPackagesHaveTheLicense(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"typescript", "python"} {
		if textOf(t, "clients/"+folder+"/LICENSE") != textOf(t, "LICENSE") {
			t.Errorf("clients/%s/LICENSE differs from LICENSE", folder)
		}
	}
}
