package chaos_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
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

// rowCheckOff has a hint run a task that has ended once more. Three rules keep it from that, one behind the other: the
// verdict; the transition, which leaves such a row as it is, so that no version fits; and the condition of the write.
var rowCheckOff = []change{
	{"internal/settle/decide.go", "case row.State != task.Pending:", "case false:"},
	{"internal/transition/task.go", `	if t.State != task.Pending {
		return t
	}
	t.State, t.FinishedAt = s, now
`, `	t.State, t.FinishedAt = s, now
`},
	{"internal/store/write.go", `SET %s WHERE state = %d AND %s"`, `SET %s WHERE state >= 0 * %d AND %s"`},
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
		{"the row check removed", rowCheckOff, "13", `(?m)^ +\S+_test.go:\d+: duplicate: task \S+: took effect again`},
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
			{"internal/settle/reader.go", "		if more, err := r.round(ctx, what); err", `		if time.Now().UnixMicro()%100 == 0 {
			return nil
		}
		if more, err := r.round(ctx, what); err`},
		}, "89", `(?m)^ +\S+_test.go:\d+: unsettled: reader-`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := sabotaged(t, c.changes, "^TestChaos$", "DUETIME_CHAOS_ROWS="+c.row)
			found := regexp.MustCompile(c.want).FindAllString(out, -1)
			if len(found) == 0 {
				t.Fatalf("the suite has not seen it:\n%s", out)
			}
			t.Logf("row %s saw %d times: %s", c.row, len(found), strings.TrimSpace(found[0]))
		})
	}
}

// TestWitnessSeesSabotage removes rules likewise: the witness must report each within a minute, by its name. It can't see a
// rule that matters only where something of a service, or a leader, comes to grief: the epoch check (a frozen leader), the
// order of acknowledgement and publishing (Kafka away), answers of 5xx (no task of it is pushed), fresh reads and groups (it
// makes none).
func TestWitnessSeesSabotage(t *testing.T) {
	if os.Getenv("DUETIME_CHAOS_SELFTEST") == "" {
		return // make chaos-selftest asks for it
	}
	for _, c := range []struct {
		name    string
		changes []change
		want    string // one of the faults
	}{
		{"the row check removed", rowCheckOff, "(doubled|after_cancel)"}, // by hints that are given twice
		{"the check of the time removed", []change{
			{"internal/settle/decide.go", "case row.RunAt.After(f.lockedAt):", "case false:"},
			{"internal/settle/decide.go", "case row.DueAt.After(f.lockedAt):", "case row.RunAt.IsZero():"},
		}, "early"}, // by moves while the hint is under way
		{"a replaced task keeps its data", []change{
			{"internal/transition/task.go", "next.Payload, next.MaxAttempts, next.Traceparent = with.Payload, with.", "next.MaxAttempts, next.Traceparent = with."},
		}, "stale"},
		{"the sweep off", []change{sweepOff}, "lost"},
		{"the order's check removed", []change{
			{"internal/settle/order.go", "if transition.IsBefore(head.Task, m.row) {", "if false {"},
		}, "inverted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := sabotaged(t, c.changes, "^TestWitness$", "DUETIME_NIGHTLY=1")
			found := regexp.MustCompile(`(?m)^ +witness_test.go:\d+: the witness reports .*` + c.want + `.* after .*`).FindString(out)
			if found == "" {
				t.Fatalf("the witness has not seen it:\n%s", out)
			}
			t.Log(strings.TrimSpace(found))
		})
	}
}

// sabotaged runs a test of this package against the product with the changes made, and returns what the suite said. The
// changed files take the places of the others in every build: nothing is written among the sources.
func sabotaged(t *testing.T, changes []change, test string, env ...string) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	pipelinetest.Must(t, err)
	dir, replaced := t.TempDir(), map[string]string{}
	for i, c := range changes {
		path := filepath.Join(root, c.file)
		text, err := os.ReadFile(cmp.Or(replaced[path], path))
		pipelinetest.Must(t, err)
		if n := bytes.Count(text, []byte(c.old)); n != 1 {
			t.Fatalf("%s has %d places like %q, want one: the sabotage has to follow the product", c.file, n, c.old)
		}
		replaced[path] = filepath.Join(dir, fmt.Sprint(i)+filepath.Ext(path))
		pipelinetest.Must(t, os.WriteFile(replaced[path], bytes.Replace(text, []byte(c.old), []byte(c.new), 1), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	pipelinetest.Must(t, err)
	pipelinetest.Must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout", "20m", "-v", "-run", test, "./internal/test/chaos")
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), "DUETIME_CHAOS_SELFTEST=", "GOFLAGS=-overlay="+filepath.Join(dir, "overlay.json")), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("the row passed in spite of it")
	}
	return string(out)
}
