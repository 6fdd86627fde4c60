package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/build"
)

// The tool says what it was built from without any server or configuration.
func TestVersion(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("../../migrations/mysql")
	if err != nil {
		t.Fatal(err)
	}
	want := builtFrom{build.Read(), int64(len(files))} // numbered from 1 on, without a gap

	var got builtFrom
	if err := json.Unmarshal([]byte(printed(t, "version", "--json")), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("--json (-want +got):\n%s", d)
	}
	cells := strings.Fields(printed(t, "version"))
	if d := cmp.Diff([]string{
		"version", want.Version, "revision", want.Revision, "go", want.Go, "tz", "database", want.TZ, "schema", strconv.FormatInt(want.Schema, 10),
	}, cells); d != "" {
		t.Errorf("the table (-want +got):\n%s", d)
	}
}

// printed runs the tool within the test and returns what it wrote.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	root := (&tool{out: &out, errs: &out}).root()
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
