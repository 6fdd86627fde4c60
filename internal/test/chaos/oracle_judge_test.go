package chaos_test

import (
	"net/http"
	"slices"
	"testing"
)

// TestOracle feeds the oracle with broken histories: it must see each, and call it by its name.
func TestOracle(t *testing.T) {
	t.Parallel()
	base := func() (history, []call) {
		h := history{
			now: 5000, rows: map[string]row{"a": {state: done}, "b": {state: pending, run: 9000}},
			lines: []line{
				{pet: "1", owner: "o", event: fed, task: "a", version: 1, due: 10, at: 0},
				{pet: "1", owner: "o", event: spedUp, task: "a", version: 2, due: 5, at: 1},
				{pet: "1", owner: "o", event: "meal_finished", task: "a", version: 3, due: 5, at: 5},
				{pet: "1", owner: "o", event: fed, task: "b", version: 1, due: 9000, at: 9},
			},
			stocks: map[string]stock{"1": {food: cards - 2, speedups: cards - 1, autofeeds: cards, meals: 1, experience: 10}},
		}
		return h, []call{
			{op: created, owner: "o", pet: "1", status: http.StatusCreated},
			{op: fed, owner: "o", pet: "1", status: http.StatusOK, task: "a", version: 1},
			{op: spedUp, owner: "o", pet: "1", status: http.StatusOK, task: "a", version: 2},
			{op: fed, owner: "o", pet: "1", status: http.StatusOK, task: "b", version: 1},
		}
	}
	for _, c := range []struct {
		name   string
		change func(h *history, calls *[]call)
		want   string // the one sort of trouble; empty: none
	}{
		{"as promised", func(*history, *[]call) {}, ""},
		{"an effect twice", func(h *history, _ *[]call) {
			h.lines = append(h.lines, h.lines[2])
			h.stocks["1"] = stock{food: cards - 2, speedups: cards - 1, autofeeds: cards, meals: 2, experience: 20}
		}, "duplicate"},
		{"a start twice", func(h *history, calls *[]call) {
			h.lines = append(h.lines, h.lines[3])
			*calls = append(*calls, call{op: fed, owner: "o", pet: "1"})
			h.stocks["1"] = stock{food: cards - 3, speedups: cards - 1, autofeeds: cards, meals: 1, experience: 10}
		}, "duplicate"},
		{"an early effect", func(h *history, _ *[]call) { h.lines[2].at = 4 }, "early"},
		{"by the old schedule", func(h *history, _ *[]call) { h.lines[2].due, h.lines[2].at = 10, 10 }, "stale"},
		{"by an older version", func(h *history, _ *[]call) { h.lines[2].version = 1 }, "stale"},
		{"an effect before an acknowledged postponement", func(_ *history, calls *[]call) {
			*calls = append(*calls, call{op: postponed, task: "a", due: 50, status: http.StatusOK})
		}, "stale"},
		{"an effect as postponed without an answer", func(h *history, calls *[]call) {
			*calls = append(*calls, call{op: postponed, task: "a", due: 50})
			h.lines[2].due, h.lines[2].at = 50, 50
		}, ""},
		{"an effect after the cancel", func(h *history, calls *[]call) {
			h.lines = slices.Insert(h.lines, 2, line{pet: "1", owner: "o", event: cancelled, task: "a", version: 3, due: 5, at: 2})
			h.stocks["1"] = stock{food: cards - 1, speedups: cards - 1, autofeeds: cards, meals: 1, experience: 10}
			*calls = append(*calls, call{op: cancelled, owner: "o", pet: "1", status: http.StatusOK})
		}, "after-cancel"},
		{"a cancel after the effect", func(h *history, calls *[]call) {
			h.lines = append(h.lines, line{pet: "1", owner: "o", event: cancelled, task: "a", version: 4, due: 5, at: 20})
			h.stocks["1"] = stock{food: cards - 1, speedups: cards - 1, autofeeds: cards, meals: 1, experience: 10}
			*calls = append(*calls, call{op: cancelled, owner: "o", pet: "1", status: http.StatusOK})
		}, "after-cancel"},
		{"a change after the effect", func(h *history, calls *[]call) {
			h.lines = append(h.lines, line{pet: "1", owner: "o", event: armed, task: "a", version: 3, due: 5, at: 20})
			*calls = append(*calls, call{op: armed, owner: "o", pet: "1", status: http.StatusOK})
		}, "stale"},
		{"an effect of nothing", func(h *history, _ *[]call) {
			h.lines = append(h.lines, line{pet: "1", owner: "o", event: "meal_finished", task: "c", due: 5, at: 20})
			h.stocks["1"] = stock{food: cards - 2, speedups: cards - 1, autofeeds: cards, meals: 2, experience: 20}
		}, "phantom"},
		{"a change that nobody asked for", func(_ *history, calls *[]call) { *calls = slices.Delete(*calls, 2, 3) }, "phantom"},
		{"a change without an answer", func(_ *history, calls *[]call) { (*calls)[2].status, (*calls)[2].task = 0, "" }, ""},
		{"a pet that nobody made", func(_ *history, calls *[]call) { *calls = (*calls)[1:] }, "phantom"},
		{"a row that nobody made", func(h *history, _ *[]call) { h.rows["d"] = row{state: pending, run: 9000} }, "phantom"},
		{"an acknowledged change that is nowhere", func(_ *history, calls *[]call) {
			*calls = append(*calls, call{op: armed, owner: "o", pet: "1", status: http.StatusOK})
		}, "lost"},
		{"an acknowledged meal that is nowhere", func(_ *history, calls *[]call) { (*calls)[3].task = "z" }, "lost"},
		{"an owner's speed-up that is nowhere", func(_ *history, calls *[]call) {
			*calls = append(*calls, call{op: hurried, owner: "o", status: http.StatusOK, moved: 1})
		}, "lost"},
		{"an acknowledged pet that is nowhere", func(_ *history, calls *[]call) {
			*calls = append(*calls, call{op: created, owner: "o", pet: "2", status: http.StatusCreated})
		}, "lost"},
		{"a due task without its effect", func(h *history, _ *[]call) { h.rows["b"] = row{state: pending, run: 50} }, "lost"},
		{"done without an effect", func(h *history, _ *[]call) { h.rows["b"] = row{state: done} }, "lost"},
		{"a dead task", func(h *history, _ *[]call) { h.rows["b"] = row{state: dead} }, "lost"},
		{"a task cancelled by nobody", func(h *history, _ *[]call) { h.rows["b"] = row{state: revoked} }, "lost"},
		{"a row that is gone", func(h *history, _ *[]call) { delete(h.rows, "b") }, "lost"},
		{"a row that would run again", func(h *history, _ *[]call) { h.rows["a"] = row{state: pending, run: 9000} }, "torn"},
		{"half a transaction", func(h *history, _ *[]call) {
			h.stocks["1"] = stock{food: cards - 2, speedups: cards - 1, autofeeds: cards, meals: 0, experience: 0}
		}, "torn"},
	} {
		h, calls := base()
		c.change(&h, &calls)
		v := judge(h, calls, leave{})
		for _, kind := range v.kinds() {
			if (len(kind.cases) > 0) != (kind.name == c.want) {
				t.Errorf("%s: %d %s, want only %q: %v", c.name, len(kind.cases), kind.name, c.want, kind.cases)
			}
		}
	}
}
