package chaos_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// change is made in a copy of the product: old stands in the file exactly once.
type change struct{ file, old, new string }

// sweepOff leaves a task alone that the index has lost.
var sweepOff = change{
	"internal/reconcile/reconcile.go", `	for _, p := range r.passes() {
`, `	for _, p := range r.passes() {
		if p.name == "lookahead" || p.name == "overdue" || p.name == "changed" || p.name == "audit rows" {
			continue
		}
`,
}

// TestSabotage removes one rule after the other from a copy of the product and plays a row against it. The suite must
// see what follows, and call it by its name. It proves nothing about the product; it proves that the suite can fail.
func TestSabotage(t *testing.T) {
	if os.Getenv("DUETIME_CHAOS_SELFTEST") == "" {
		return // make chaos-selftest asks for it
	}
	for _, c := range []struct {
		name    string
		changes []change
		row     string
		want    string // in the output
	}{
		{"the row check removed", []change{
			{"internal/settle/decide.go", "case row.State != task.Pending:", "case false:"},
			{"internal/store/write.go", `SET %s WHERE state = %d AND %s"`, `SET %s WHERE state >= 0 * %d AND %s"`},
		}, "13", `(?m)^ +\S+_test.go:\d+: duplicate: task \S+: took effect again`},
		{"the sweep off", []change{sweepOff}, "7", `(?m)^ +\S+_test.go:\d+: lost: task \S+: due for`},
		{"acknowledged before published, the sweep off", []change{sweepOff, {
			"internal/dispatch/pass.go", "	s.acked = s.acked[:0]\n", `	s.acked = s.acked[:0]
	if _, err := s.d.index.Claim(ctx, s.number, s.epoch, now.Add(-time.Hour), 0, 1, claim.Entries); err != nil {
		return loop.Result{}, err
	}
`,
		}}, "11", `(?m)^ +\S+_test.go:\d+: lost: task \S+: due for`},
		{"the epoch check off", []change{
			{"internal/index/lua/prelude.lua", "if stored and tonumber(stored) > tonumber(epoch) then", "if false then"},
		}, "2", `(?m)^ +\S+_test.go:\d+: .*zombie`},
		{"the order's check removed", []change{
			{"internal/settle/order.go", "if transition.IsBefore(head.Task, m.row) {", "if false {"},
		}, "88", `(?m)^ +\S+_test.go:\d+: inverted: \d+ marches`},
		{"members of a group are counted without the lock", []change{
			{
				"internal/store/groups.go", `" WHERE name = ? AND part >= ? AND open >= ? ORDER BY part LIMIT 1"+s.dialect.skipLocked()`,
				`" WHERE name = ? AND part >= ? AND open >= ? ORDER BY part LIMIT 1"`,
			},
		}, "90", `(?m)^ +\S+_test.go:\d+: (effects of the follower, with exact counts: 0|the follower to run|.*did not)`},
		{"an answer of 5xx counts as done", []change{
			{"pkg/deliver/answer.go", "if status >= 200 && status < 300 {", "if status >= 200 && status < 600 {"},
		}, "82", `(?m)^ +\S+_test.go:\d+: lost: task \S+: done without an answer of 2xx`},
		{"one in a hundred fresh reads settles nothing", []change{
			{"internal/settle/reader.go", "		more, err := r.round(ctx)\n", `		if time.Now().UnixMicro()%100 == 0 {
			return r.answered, nil
		}
		more, err := r.round(ctx)
`},
		}, "89", `(?m)^ +\S+_test.go:\d+: unsettled: reader-`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := sabotaged(t, c.changes, c.row)
			found := regexp.MustCompile(c.want).FindAllString(out, -1)
			if len(found) == 0 {
				t.Fatalf("the suite has not seen it:\n%s", out)
			}
			t.Logf("row %s saw %d times: %s", c.row, len(found), strings.TrimSpace(found[0]))
		})
	}
}

// sabotaged plays a row in a copy of the module with the changes made, and returns what the suite said.
func sabotaged(t *testing.T, changes []change, row string) string {
	t.Helper()
	dir := t.TempDir()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = "../../.."
	files, err := list.Output()
	pipelinetest.Must(t, err)
	for _, name := range strings.Split(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("../../..", name))
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		pipelinetest.Must(t, err)
		to := filepath.Join(dir, name)
		pipelinetest.Must(t, os.MkdirAll(filepath.Dir(to), 0o700))
		pipelinetest.Must(t, os.WriteFile(to, text, 0o600))
	}
	for _, c := range changes {
		path := filepath.Join(dir, c.file)
		text, err := os.ReadFile(path)
		pipelinetest.Must(t, err)
		if n := bytes.Count(text, []byte(c.old)); n != 1 {
			t.Fatalf("%s has %d places like %q, want one: the sabotage has to follow the product", c.file, n, c.old)
		}
		pipelinetest.Must(t, os.WriteFile(path, bytes.Replace(text, []byte(c.old), []byte(c.new), 1), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout", "20m", "-v", "-run", "^TestChaos$", "./internal/test/chaos")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "DUETIME_CHAOS_ROWS="+row, "DUETIME_CHAOS_SELFTEST=")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("the row passed in spite of it")
	}
	return string(out)
}
