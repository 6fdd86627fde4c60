package task_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

func TestLimitsOfATimeout(t *testing.T) {
	t.Parallel()
	for d, refused := range map[time.Duration]bool{
		0: false, task.MinTimeout: false, task.MaxTimeout: false,
		-time.Second: true, task.MinTimeout - 1: true, task.MaxTimeout + 1: true,
	} {
		func() {
			defer func() {
				panicked := fmt.Sprint(recover())
				if got := strings.Contains(panicked, "timeout must be 10 ms to 1 h"); got != refused {
					t.Errorf("%v: refused is %v (%s), want %v", d, got, panicked, refused)
				}
			}()
			if got := task.NewKind[int]("meal", task.Timeout(d)).Info().Timeout; got != d {
				t.Errorf("timeout is %v, want %v", got, d)
			}
		}()
	}
}

func TestNamesOfAKind(t *testing.T) {
	t.Parallel()
	for names, want := range map[string]string{
		"meal.done meal.over": "", "feed.done": "was must not have", "meal.done meal.done": "was must not have", "meal!": "kind must be",
	} {
		info := task.NewKind[int]("feed.done").Info()
		task.Was(strings.Fields(names)...)(&info)
		if err := info.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", names, err, want)
		}
	}
}

func TestLimitsOfABatch(t *testing.T) {
	t.Parallel()
	for n, refused := range map[int]bool{0: false, 1: false, task.MaxPerCall: false, -1: true, task.MaxPerCall + 1: true} {
		info := task.NewKind[int]("meal").Info()
		info.Batch = n
		if err := info.Check(); (err != nil) != refused {
			t.Errorf("%d: %v, refused: %v", n, err, refused)
		}
	}
}

// pointed is a payload with a level below.
type pointed struct {
	Pet  int                `json:"pet"`
	Food struct{ Kind any } `json:"food"`
}

func TestStrictPayload(t *testing.T) {
	t.Parallel()
	strict, lax := task.NewKind[pointed]("meal", task.StrictPayload()), task.NewKind[pointed]("meal")
	for payload, want := range map[string]struct{ strict, lax string }{
		`{"pet":7}`:                         {},
		`{"pet":7, "food":{"Kind":{}}}`:     {},
		`{"pet":7,"toy":1}`:                 {strict: `unknown field "toy"`},
		`{"pet":7,"food":{"Kind":1,"g":1}}`: {strict: `unknown field "g"`},
		`{"pet":"seven"}`:                   {strict: "cannot unmarshal string", lax: "cannot unmarshal string"},
		`{"pet":7}{"toy":1}`:                {strict: "more behind the value", lax: "after top-level value"},
		`{"pet":7}]`:                        {strict: "more behind the value", lax: "after top-level value"},
		`{"pet":7`:                          {strict: "unexpected EOF", lax: "unexpected end"},
		``:                                  {strict: "unexpected EOF", lax: "unexpected end"},
	} {
		row := task.Task{ID: task.NewID(), Kind: "meal", Payload: json.RawMessage(payload)}
		for name, test := range map[string]struct {
			kind task.Kind[pointed]
			want string
		}{"strict": {strict, want.strict}, "lax": {lax, want.lax}} {
			got, err := test.kind.Payload(row)
			switch {
			case test.want == "" && (err != nil || got.Pet != 7):
				t.Errorf("%s, %s: got %v and error %v", name, payload, got, err)
			case test.want != "" && (!strings.Contains(fmt.Sprint(err), test.want) || !strings.Contains(fmt.Sprint(err), "CHANGING")):
				t.Errorf("%s, %s: error is %v, want %q and where to read on", name, payload, err, test.want)
			}
		}
	}
}

// A spec that was changed before it is scheduled makes the row that the changes say, and the spec before stays as it was.
func TestSpecIsChanged(t *testing.T) {
	t.Parallel()
	text := task.NewKind[string]("text")
	before := text.New("ann", "a", task.In(time.Hour))
	after := before.With(task.Subject("s"), task.Once("k")).WithPayload("b").WithWhen(task.In(time.Minute))
	row, err := after.Resolve(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want string }{
		{"owner", after.Owner(), "ann"},
		{"subject", after.Subject(), "s"},
		{"key", after.Key(), "k"},
		{"payload", string(after.Payload()), `"b"`},
		{"row's subject", row.Subject, "s"},
		{"row's key", row.DedupKey, "ok"},
		{"row's payload", string(row.Payload), `"b"`},
		{"row's due time", row.DueAt.Sub(now).String(), "1m0s"},
		{"id", row.ID.String(), before.ID().String()},
		{"subject before", before.Subject(), ""},
		{"key before", before.Key(), ""},
		{"payload before", string(before.Payload()), `"a"`},
	} {
		if c.got != c.want {
			t.Errorf("%s is %q, want %q", c.what, c.got, c.want)
		}
	}
	after.Payload()[0] = 'x'
	if got := string(after.Payload()); got != `"b"` {
		t.Errorf("a copy of the payload changed the spec's: %s", got)
	}
	for name, spec := range map[string]task.Spec{
		"a second key": after.With(task.Key("other")), "a payload without JSON": before.WithPayload(make(chan int)),
	} {
		if _, err := spec.Resolve(now); err == nil {
			t.Errorf("%s was not refused", name)
		}
	}
	if _, err := text.New("ann", "a", task.In(0)).WithPayload(make(chan int)).WithPayload("b").Resolve(now); err != nil {
		t.Errorf("the last payload counts, got %v", err)
	}
}
