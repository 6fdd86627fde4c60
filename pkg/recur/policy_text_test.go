package recur_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/recur"
)

func TestPolicyJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy recur.Policy
		text   string
	}{
		{recur.Policy{}, `{}`},
		{recur.Policy{CatchUp: recur.CatchUpSkip, Overlap: recur.OverlapBufferOne}, `{"catch_up":"skip","overlap":"buffer one"}`},
		{
			recur.Policy{
				CatchUp: recur.CatchUpAll(3), Window: 90 * time.Minute, Overlap: recur.OverlapAllow, Jitter: 1500 * time.Millisecond,
				Start: at("2026-01-01T00:00:00.5Z"), End: at("2027-01-01T00:00:00Z"), Count: 7, Revision: 2,
			},
			`{"catch_up":"all 3","window":"1h30m0s","overlap":"allow","jitter":"1.5s","start":"2026-01-01T00:00:00.5Z","end":"2027-01-01T00:00:00Z","count":7,"revision":2}`,
		},
	} {
		if got := string(must(json.Marshal(c.policy))); got != c.text {
			t.Errorf("got %s, want %s", got, c.text)
		}
		var back recur.Policy
		if err := json.Unmarshal([]byte(c.text), &back); err != nil || back != c.policy {
			t.Errorf("%s reads back as %+v, %v", c.text, back, err)
		}
	}
	for text, want := range map[string]string{
		`{"catch_up":"all 5h"}`:   "catch_up must be last, skip, or all with 1 to 1000",
		`{"catch_up":"all 3.5"}`:  "catch_up must be last, skip, or all with 1 to 1000",
		`{"catch_up":"all 5 10"}`: "catch_up must be last, skip, or all with 1 to 1000",
		`{"catch_up":"all"}`:      "catch_up must be last, skip, or all with 1 to 1000",
		`{"catch_up":"all 0"}`:    "catch_up must be last, skip, or all with 1 to 1000",
		`{"overlap":"none"}`:      "overlap must be skip, buffer one or allow",
		`{"window":"soon"}`:       "window must be a duration such as 1h30m",
		`{"jitter":"soon"}`:       "jitter must be a duration such as 1h30m",
	} {
		var p recur.Policy
		if err := json.Unmarshal([]byte(text), &p); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
