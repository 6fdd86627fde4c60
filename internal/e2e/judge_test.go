package e2e_test

import (
	"strings"
	"testing"
	"time"
)

// TestJudge feeds the oracle with broken histories: it must see each.
func TestJudge(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(1_700_000_000+int64(s), 0) }
	fed := line{pet: 1, owner: "o", event: "fed", task: "a", version: 1, due: at(10), at: at(0)}
	moved := line{pet: 1, owner: "o", event: "sped_up", task: "a", version: 2, due: at(5), at: at(1)}
	finished := line{pet: 1, owner: "o", event: "meal_finished", task: "a", version: 3, due: at(5), at: at(5)}
	cancelled := line{pet: 1, owner: "o", event: "meal_cancelled", task: "a", version: 3, due: at(5), at: at(4)}
	early, stale, never := finished, finished, line{event: "meal_finished", task: "b"}
	early.at = at(4)
	stale.due, stale.at = at(10), at(10)
	for name, c := range map[string]struct {
		lines []line
		want  string // empty: nothing wrong
	}{
		"as promised":          {[]line{fed, moved, finished}, ""},
		"cancelled":            {[]line{fed, moved, cancelled}, ""},
		"twice":                {[]line{fed, moved, finished, finished}, "after its end"},
		"after the cancel":     {[]line{fed, moved, cancelled, finished}, "after its end"},
		"moved after its end":  {[]line{fed, finished, moved}, "after its end"},
		"early":                {[]line{fed, moved, early}, "early by 1s"},
		"by the old schedule":  {[]line{fed, moved, stale}, "moved to"},
		"effect without start": {[]line{never}, "before its start"},
		"started twice":        {[]line{fed, fed}, "started twice"},
	} {
		_, wrong := history{lines: c.lines}.judge()
		if got := strings.Join(wrong, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	h := history{lines: []line{fed, moved, finished}, stocks: map[int64]stock{1: {food: 99, speedups: 9, autofeeds: 10, meals: 1, experience: 10}}}
	if wrong := h.balance(); len(wrong) > 0 {
		t.Errorf("a pet that fits its journal: %v", wrong)
	}
	h.stocks[1] = stock{food: 98, speedups: 9, autofeeds: 10, meals: 1, experience: 10}
	if wrong := h.balance(); len(wrong) != 1 {
		t.Errorf("a pet that lost food: %v", wrong)
	}
	o := &owner{name: "o", pets: []*animal{{}}, acked: map[string]int{"fed": 1, "sped_up": 1}, unknown: map[string]int{}, fed: []string{"a"}}
	if wrong := h.promised([]*owner{o}); len(wrong) > 0 {
		t.Errorf("what was acknowledged: %v", wrong)
	}
	o.acked["fed"], o.fed = 2, []string{"a", "b"}
	if wrong := h.promised([]*owner{o}); len(wrong) != 2 {
		t.Errorf("an acknowledged meal that is nowhere: %v", wrong)
	}
}
