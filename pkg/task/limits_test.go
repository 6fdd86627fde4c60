package task_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

func TestLimitsNameFieldAndLimit(t *testing.T) {
	t.Parallel()
	text := task.NewKind[string]("text")
	bad := task.NewKind[chan int]("bad")
	in := task.In(time.Hour)
	const (
		twoKeys   = "key must be given once: by Key, KeyMove, KeyReplace, Once or Window"
		longKey   = "key must be 1 to 128 bytes"
		badWindow = "window must be 1 second to 10 years, in whole milliseconds"
	)
	for name, test := range map[string]struct {
		spec task.Spec
		want string // of the error; empty for what is accepted
	}{
		"longest owner":      {text.New(strings.Repeat("é", 32), "", in), ""},
		"long owner":         {text.New(strings.Repeat("é", 32)+"a", "", in), "owner must be 1 to 64 bytes"},
		"no owner":           {text.New("", "", in), "owner must be 1 to 64 bytes"},
		"brace":              {text.New("a{b", "", in), "owner must not contain { or }"},
		"blank":              {text.New("a ", "", in), "owner must not begin or end with a blank"},
		"control":            {text.New("a\x1fb", "", in), "owner must not contain control characters"},
		"not UTF-8":          {text.New("a\xff", "", in), "owner must be valid UTF-8"},
		"longest subject":    {text.New("a", "", in, task.Subject(strings.Repeat("s", 63))), ""},
		"long subject":       {text.New("a", "", in, task.Subject(strings.Repeat("s", 64))), "subject must be 0 to 63 bytes"},
		"a UUID as subject":  {text.New("a", "", in, task.Subject(task.NewID().String())), ""},
		"longest key":        {text.New("a", "", in, task.Key(strings.Repeat("k", 128))), ""},
		"long key":           {text.New("a", "", in, task.Once(strings.Repeat("k", 129))), "key must be 1 to 128 bytes"},
		"empty key":          {text.New("a", "", in, task.KeyMove("")), "key must be 1 to 128 bytes"},
		"two keys":           {text.New("a", "", in, task.Key("k"), task.Once("k")), twoKeys},
		"a key and a window": {text.New("a", "", in, task.Key("k"), task.Window("k", time.Second)), twoKeys},
		"shortest window":    {text.New("a", "", in, task.Window("k", time.Second)), ""},
		"short window":       {text.New("a", "", in, task.Window("k", time.Second-time.Millisecond)), badWindow},
		"no window":          {text.New("a", "", in, task.Window("k", 0)), badWindow},
		"longest window":     {text.New("a", "", in, task.Window("k", task.MaxAhead)), ""},
		"long window":        {text.New("a", "", in, task.Window("k", task.MaxAhead+time.Millisecond)), badWindow},
		"broken millisecond": {text.New("a", "", in, task.Window("k", time.Second+time.Microsecond)), badWindow},
		"window's long key":  {text.New("a", "", in, task.Window(strings.Repeat("k", 129), time.Second)), longKey},
		"a bound of nothing": {text.New("a", "", in, task.KeyReplace("k"), task.MaxWait(0)), "max_wait must be 1 ms to 10 years"},
		"a bound of a key":   {text.New("a", "", in, task.Key("k"), task.MaxWait(time.Hour)), "max_wait must not be set without KeyMove or KeyReplace"},
		"empty replace key":  {text.New("a", "", in, task.KeyReplace("")), "key must be 1 to 128 bytes"},
		"longest payload":    {text.New("a", strings.Repeat("p", 4094), in), ""},
		"long payload":       {text.New("a", strings.Repeat("p", 4095), in), "payload must be at most 4096 bytes of JSON, and has 4097"},
		"no JSON":            {bad.New("a", nil, in), "payload must be encodable as JSON: json: unsupported type: chan int"},
		"farthest":           {text.New("a", "", task.In(task.MaxAhead)), ""},
		"too far":            {text.New("a", "", task.In(task.MaxAhead+1)), "due must lie within 10 years, and before September 2039"},
		"absurdly far":       {text.New("a", "", task.In(math.MaxInt64)), "due must lie within 10 years, and before September 2039"},
		"no time":            {text.New("a", "", task.At(time.Time{})), "due must be set"},
		"zero id":            {text.New("a", "", in, task.WithID(task.ID{})), "task_id must not be zero"},
		"not made by a kind": {task.Spec{}, "kind must be 1 to 64 characters of A-Z a-z 0-9 . _ : -"},
	} {
		_, err := test.spec.Resolve(now)
		var field *task.FieldError
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (!errors.As(err, &field) || err.Error() != test.want):
			t.Errorf("%s: error is %v, want %s", name, err, test.want)
		}
	}
}

func TestNewKindPanicsOutsideTheLimits(t *testing.T) {
	t.Parallel()
	for name, declare := range map[string]func(){
		"no name":            func() { task.NewKind[int]("") },
		"long name":          func() { task.NewKind[int](strings.Repeat("k", 65)) },
		"blank":              func() { task.NewKind[int]("a b") },
		"queue with a colon": func() { task.NewKind[int]("a", task.Queue("a:b")) }, // no topic may have one
		"no queue":           func() { task.NewKind[int]("a", task.Queue("")) },
		"no attempts":        func() { task.NewKind[int]("a", task.MaxAttempts(0)) },
		"many attempts":      func() { task.NewKind[int]("a", task.MaxAttempts(1001)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			declare()
		}()
	}
	info := task.NewKind[int]("a:b.c_d-e", task.Retry(task.Backoff{Min: time.Hour})).Info()
	if info.Queue != "default" || info.MaxAttempts != 25 || info.Backoff.Max != time.Hour {
		t.Errorf("defaults are %+v", info)
	}
}

func TestRetrySetsOneBoundByTheOther(t *testing.T) {
	for given, want := range map[task.Backoff]task.Backoff{
		{}:                                       task.DefaultBackoff,
		{Max: 200 * time.Millisecond}:            {Min: 200 * time.Millisecond, Max: 200 * time.Millisecond},
		{Min: time.Hour}:                         {Min: time.Hour, Max: time.Hour},
		{Min: time.Minute, Max: 2 * time.Minute}: {Min: time.Minute, Max: 2 * time.Minute},
	} {
		if got := task.NewKind[int]("k", task.Retry(given)).Info().Backoff; got != want {
			t.Errorf("of %+v: %+v, want %+v", given, got, want)
		}
	}
}

func TestDueIsNeverEarlyAndWholeMilliseconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		in := time.Duration(rapid.Int64Range(int64(-time.Hour), int64(task.MaxAhead)).Draw(r, "in"))
		for _, when := range []task.When{task.In(in), task.At(now.Add(in))} {
			due, err := when.Due(now)
			if err != nil {
				r.Fatal(err)
			}
			want := now.Add(max(in, 0))
			if due.Before(want) || due.Sub(want) >= time.Millisecond || due.Nanosecond()%1_000_000 != 0 {
				r.Fatalf("due %v for %v", due, want)
			}
		}
	})
}

func TestTextForms(t *testing.T) {
	t.Parallel()
	id := task.NewID()
	b, err := json.Marshal(protocol.Hint{ID: id, Kind: "k", Owner: "o", RunAt: 5, Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	var back protocol.Hint
	if err := json.Unmarshal(b, &back); err != nil || back.ID != id || back.Moment().UnixMilli() != 5 {
		t.Errorf("hint came back as %+v, %v", back, err)
	}
	if got, err := protocol.IDFromBytes(id[:]); err != nil || got != id {
		t.Errorf("id from bytes is %v, %v", got, err)
	}
	if _, err := protocol.IDFromBytes(id[:15]); err == nil {
		t.Error("15 bytes made an id")
	}
	for _, wrong := range []string{"", id.String()[1:], "{" + id.String() + "}", strings.Repeat("x", 36), "urn:uuid:" + id.String()} {
		if _, err := task.ParseID(wrong); err == nil {
			t.Errorf("%q made an id", wrong)
		}
	}
	for s := task.Pending; s <= task.Dead; s++ {
		if got, err := task.ParseState(s.String()); err != nil || got != s {
			t.Errorf("state %v came back as %v, %v", s, got, err)
		}
	}
	if _, err := task.ParseState("State(9)"); err == nil || task.State(9).String() != "state(9)" {
		t.Errorf("an unknown state is %v, %v", task.State(9), err)
	}
}
