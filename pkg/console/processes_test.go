package console

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/store"
)

// A deploy is a version's first start since another version had started; crashes within a rollout are none.
func TestDeploys(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_800_000_000_000)
	for name, c := range map[string]struct{ runs, want string }{
		"nothing":            {"", ""},
		"one version":        {"a0-5 a6-9", ""},
		"a rollout":          {"a0-5 a1-6 b4-9 b5-9", "b4"},
		"a crash within":     {"a0-3 a1-9 b2-9 a3-9 b4-9", "b2"},
		"a rollback":         {"a0-5 b4-9 a7-9", "b4 a7"},
		"a stop of all":      {"a0-2 b2-4 b6-9", "b2"},
		"versions in a row":  {"a0-2 b2-4 c4-9", "b2 c4"},
		"back while it runs": {"a0-9 b2-4 a5-9", "b2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(digit byte) time.Time { return began.Add(time.Duration(digit-'0') * time.Hour) }
			var runs []store.Run
			for word := range strings.FieldsSeq(c.runs) {
				runs = append(runs, store.Run{Role: "worker", Version: word[:1], Started: at(word[1]), Seen: at(word[3])})
			}
			runs = append(runs, store.Run{Role: "event", Version: "z", Started: began, Seen: began})
			var want []Deploy
			for word := range strings.FieldsSeq(c.want) {
				want = append(want, Deploy{"worker", word[:1], at(word[1]).UnixMilli()})
			}
			diff(t, "deploys", want, deploysOf(runs))
		})
	}
}
