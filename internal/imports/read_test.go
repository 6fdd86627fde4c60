package imports

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// Another id would import every member once more.
func TestIDsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string][]string{
		"d29ba4a1-bf55-895f-9545-20378e788788": {"", "0", "zset", "delayed", "42"},
		"393a6f8d-9379-8c89-9c4a-f3f6833d3340": {"", "0", "asynq", "default", "42"},
	} {
		if got := idOf(parts...); got.String() != want {
			t.Errorf("%q: id %s, want %s", parts, got, want)
		}
	}
	r := run{source: &ZSet{Key: "delayed"}}
	if diff := cmp.Diff([]string{"", "0", "zset", "delayed"}, r.identity()); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if idOf("a", "bc") == idOf("ab", "c") || idOf("a") == idOf("a", "") {
		t.Error("two lists of parts have one id")
	}
	if _, err := task.ParseID(idOf("x").String()); err != nil {
		t.Error(err)
	}
}

func TestUnitShows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		scores []float64
		want   Unit
	}{
		{"seconds", []float64{1_790_000_000, 1_990_000_000.5}, UnitSeconds},
		{"milliseconds", []float64{1_790_000_000_000, 1_990_000_000_000}, UnitMilliseconds},
		{"infinite ones can't be read anyway", []float64{math.Inf(-1), 1_790_000_000_000, math.Inf(1)}, UnitMilliseconds},
		{"nothing", nil, UnitSeconds},
		{"both", []float64{1_790_000_000, 1_790_000_000_000}, UnitGuessed},
		{"neither", []float64{5, 7}, UnitGuessed},
		{"between", []float64{3e10}, UnitGuessed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, key := server(t)
			for i, score := range c.scores {
				pipelinetest.Must(t, client.ZAdd(t.Context(), key, redis.Z{Score: score, Member: i}).Err())
			}
			z := ZSet{Key: key}
			if err := z.prepare(t.Context(), client); z.Unit != c.want && err == nil || errors.Is(err, ErrUnit) != (c.want == UnitGuessed) {
				t.Errorf("unit %v, %v; want %v", z.Unit, err, c.want)
			}
		})
	}
}

func TestScoresAreMoments(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 5, 6, 7, 8, 9, 123_000_000, time.UTC)
	for _, c := range []struct {
		score float64
		unit  Unit
		want  time.Time
	}{
		{float64(at.Unix()) + 0.123, UnitSeconds, at},
		{float64(at.UnixMilli()), UnitMilliseconds, at},
		{float64(at.UnixMilli()) + 0.5, UnitMilliseconds, at.Add(500 * time.Microsecond)},
		{0, UnitSeconds, time.Unix(0, 0).UTC()},
	} {
		got, err := moment(c.score, c.unit)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%v: %s, %v; want %s", c.score, got, err, c.want)
		}
	}
	for _, score := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), 1e300, 1e11} {
		if got, err := moment(score, UnitSeconds); err == nil {
			t.Errorf("%v is %s", score, got)
		}
	}
}

func TestMembersArePayloads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form           Form
		member         string
		payload, owner string
		wrong          string
	}{
		{FormGuessed, `{"id":1}`, `{"id":1}`, "", ""},
		{FormGuessed, ` [1]`, ` [1]`, "", ""},
		{FormGuessed, `42`, "", "", "may be an id"},
		{FormGuessed, `"x"`, "", "", "may be an id"},
		{FormGuessed, `order-7`, "", "", "no JSON"},
		{FormGuessed, ``, "", "", "no JSON"},
		{FormJSON, `42`, `42`, "", ""},
		{FormJSON, `{"id"`, "", "", "no JSON"},
		{FormJSON, "\"\xff\"", "", "", "no UTF-8"},
		{FormID, `42`, `{"id":"42"}`, "42", ""},
		{FormID, `a "quoted" one`, `{"id":"a \"quoted\" one"}`, `a "quoted" one`, ""},
		{FormID, "\xff", "", "", "no UTF-8"},
	} {
		z := ZSet{Form: c.form}
		payload, owner, err := z.payload(c.member)
		if string(payload) != c.payload || owner != c.owner || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q as %v: %s of %q, %v", c.member, c.form, payload, owner, err)
		}
	}
}

func TestOwnerFromAField(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"who":"ann"}`:                      "ann",
		`{"who":7}`:                          "7",
		`{"who":12345678901234567890}`:       "12345678901234567890",
		`{"who":""}`:                         "",
		`{"who":null}`:                       "",
		`{"who":true}`:                       "",
		`{"who":{"id":1}}`:                   "",
		`{"user":"ann"}`:                     "",
		`["ann"]`:                            "",
		`null`:                               "",
		``:                                   "",
		`{"a":{"who":"bob"},"who":"\u00e9"}`: "é",
	} {
		if got, err := field([]byte(payload), "who"); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", payload, got, err, want)
		}
	}
}

func TestShownMembersAreShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "short", strings.Repeat("é", 150), "x" + strings.Repeat("é", 150), strings.Repeat("\xff", 300), "\xffabc"} {
		if got := shown(name); len(got) > maxShownMember || !utf8.ValidString(got) || name != "" && got == "" {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"127.0.0.1:6379", "http://h", "redis://u:secret@h:1", "redis://u:se%cret@h:1", "redis://h:1/x"} {
		if _, _, err := Dial(url, ""); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "cret@") {
			t.Errorf("%s: %v", url, err)
		}
	}
	client, database, err := Dial("redis://ann@h:1/3", "secret")
	if err != nil || database != 3 || client.Options().Username != "ann" || client.Options().Password != "secret" {
		t.Fatalf("database %d, %v", database, err)
	}
	pipelinetest.Must(t, client.Close())
}
