package chaos_test

import (
	"slices"
	"testing"
)

// TestPushOracle feeds the judge of pushes with broken histories: it must see each, and call it by its name.
func TestPushOracle(t *testing.T) {
	t.Parallel()
	// Order a was moved from 9 s to 5 s, failed, was put off until 7 s and done; b was cancelled before its time.
	base := func() pushes {
		return pushes{
			orders: map[string]*order{
				"a": {id: "a", changes: []orderChange{{due: 9000, began: 1, ended: 2}, {due: 5000, began: 11, ended: 12}}},
				"b": {id: "b", changes: []orderChange{{due: 9000, began: 1, ended: 2}, {cancel: true, began: 21, ended: 22}}},
			},
			lines: map[string][]push{"a": {
				{What: "try", ID: "a", Order: "a", At: 5001, Sent: 5, Due: 5000},
				{What: "try", ID: "a", Order: "a", At: 7001, Sent: 7, Due: 5000},
				{What: "effect", ID: "a", Order: "a", At: 7001, Sent: 7, Due: 5000},
				{What: "answer", ID: "a", Order: "a", At: 7051, Sent: 7, Due: 5000},
			}},
			rows:    map[string]row{"a": {state: done, run: 5000}, "b": {state: revoked, run: 9000}},
			retries: map[string][]retry{"a": {{at: 5003, until: 7000}}},
		}
	}
	for _, c := range []struct {
		name   string
		change func(p *pushes)
		want   string // the one sort of trouble; empty: none
	}{
		{"as promised", func(*pushes) {}, ""},
		{"of no order", func(p *pushes) { p.lines["c"] = p.lines["a"] }, "phantom"},
		{"a wrong signature", func(p *pushes) { p.lines["a"][0].What = "forged" }, "phantom"},
		{"the payload of another one", func(p *pushes) { p.lines["a"][0].Order = "b" }, "phantom"},
		{"before its time", func(p *pushes) { p.lines["a"][0].At = 4999 }, "early"},
		{"before the time of its retry", func(p *pushes) { p.lines["a"][1].At = 6999 }, "early"},
		{"moved before the time of its retry", func(p *pushes) {
			p.orders["a"].changes[1] = orderChange{due: 5000, began: 5002, ended: 5004}
			p.lines["a"], p.retries["a"] = p.lines["a"][1:], []retry{{at: 5003, until: 7002}}
		}, ""},
		{"as due before it was moved", func(p *pushes) { p.lines["a"][0].Due = 4000 }, "stale"},
		{"read late, as due before it was moved", func(p *pushes) {
			p.lines["a"][1] = push{What: "try", ID: "a", Order: "a", At: 13_000, Sent: 9, Due: 9000}
			p.orders["a"].changes[1] = orderChange{due: 12_000, began: 11_000, ended: 11_001}
			p.lines["a"], p.rows["a"] = p.lines["a"][1:], row{state: done, run: 12_000}
		}, ""},
		{"done at a time that it had before", func(p *pushes) { p.rows["a"] = row{state: done, run: 9000} }, "stale"},
		{"after its cancel", func(p *pushes) {
			p.lines["b"] = []push{{What: "try", ID: "b", Order: "b", At: 9001, Sent: 9, Due: 9000}}
		}, "after-cancel"},
		{"sent before its cancel, and read after it", func(p *pushes) {
			p.orders["b"].changes[1] = orderChange{cancel: true, began: 13_000, ended: 13_001}
			p.lines["b"] = []push{
				{What: "try", ID: "b", Order: "b", At: 14_000, Sent: 9, Due: 9000},
				{What: "effect", ID: "b", At: 14_000, Sent: 9},
			}
		}, ""},
		{"cancelled after its answer", func(p *pushes) {
			p.orders["a"].changes = append(p.orders["a"].changes, orderChange{cancel: true, began: 8000, ended: 8001})
			p.rows["a"] = row{state: revoked}
		}, "after-cancel"},
		{"done in spite of its cancel", func(p *pushes) { p.rows["b"] = row{state: done} }, "after-cancel"},
		{"two effects", func(p *pushes) { p.lines["a"] = append(p.lines["a"], p.lines["a"][2]) }, "duplicate"},
		{"done without an answer", func(p *pushes) { p.lines["a"] = p.lines["a"][:2] }, "lost"},
		{"never delivered", func(p *pushes) { p.rows["a"] = row{state: pending}; delete(p.lines, "a") }, "lost"},
		{"dead", func(p *pushes) { p.rows["a"] = row{state: dead} }, "lost"},
		{"cancelled by nobody", func(p *pushes) { p.rows["a"] = row{state: revoked} }, "lost"},
		{"a row that is gone", func(p *pushes) { delete(p.rows, "a") }, "lost"},
	} {
		p := base()
		p.lines["a"] = slices.Clone(p.lines["a"])
		c.change(&p)
		v := &verdict{}
		p.judge(v)
		for _, kind := range v.kinds() {
			if (len(kind.cases) > 0) != (kind.name == c.want) {
				t.Errorf("%s: %d %s, want only %q: %v", c.name, len(kind.cases), kind.name, c.want, kind.cases)
			}
		}
	}
}
