package task_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

func TestScoreIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		ms := rapid.Int64Range(0, 1<<41-1).Draw(r, "ms")
		version := rapid.Int64Range(1, 1<<40).Draw(r, "version")
		s := task.ScoreOf(task.Task{RunAt: time.UnixMilli(ms), Version: version})
		if got := s.RunAt().UnixMilli(); got != ms {
			r.Fatalf("time %d, want %d", got, ms)
		}
		if got := s.Version(); got != version%task.VersionWindow {
			r.Fatalf("version %d, want %d", got, version%task.VersionWindow)
		}
	})
}

func TestScoreTellsNeighboursApartToTheLastMillisecond(t *testing.T) {
	t.Parallel()
	last := task.Task{RunAt: time.UnixMilli(1<<41 - 1), Version: task.VersionWindow - 1}
	before, round := last, last
	before.Version--
	round.Version++
	if task.ScoreOf(before) >= task.ScoreOf(last) || float64(task.ScoreOf(last)) >= 1<<41 {
		t.Errorf("scores %v, %v", task.ScoreOf(before), task.ScoreOf(last))
	}
	if got := task.ScoreOf(round); got != 1<<41-1 {
		t.Errorf("the window begins anew at %v, want %d", got, int64(1<<41-1))
	}
	if got := task.ScoreOf(last.Finish(last.RunAt)); got != task.NoScore {
		t.Errorf("a finished task has score %v", got)
	}
}

func TestRetriesStayWithinWhatAScoreHolds(t *testing.T) {
	t.Parallel()
	late := time.UnixMilli(1<<41 - 1000)
	row := task.Task{Version: 1, MaxAttempts: 9}
	for name, next := range map[string]task.Task{
		"fail":  row.Fail(errBoom, time.Hour, late),
		"rearm": row.Rearm(time.Hour, late),
	} {
		if got := next.RunAt.UnixMilli(); got != 1<<41-1 {
			t.Errorf("%s: next try at %d, want %d", name, got, int64(1<<41-1))
		}
	}
}

func TestBackoffBounds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		b       task.Backoff
		attempt int
		most    time.Duration
	}{
		"first":       {task.DefaultBackoff, 1, time.Second},
		"third":       {task.DefaultBackoff, 3, 4 * time.Second},
		"many":        {task.DefaultBackoff, 1000, 10 * time.Minute},
		"none":        {task.DefaultBackoff, 0, time.Second},
		"overflowing": {task.Backoff{Min: 1 << 61, Max: math.MaxInt64}, 1000, math.MaxInt64},
		"odd top":     {task.Backoff{Min: time.Second, Max: 5 * time.Second}, 4, 5 * time.Second},
		"fixed":       {task.Backoff{Min: time.Millisecond, Max: time.Millisecond}, 7, time.Millisecond},
		"zero":        {task.Backoff{}, 3, time.Millisecond},
		"negative":    {task.Backoff{Min: -1, Max: -1}, 3, time.Millisecond},
	} {
		var most time.Duration
		for range 2000 {
			d := test.b.Delay(test.attempt)
			if d < time.Millisecond || d > test.most {
				t.Fatalf("%s: waits %v, want 1ms to %v", name, d, test.most)
			}
			most = max(most, d)
		}
		if most < test.most/2 {
			t.Errorf("%s: waits at most %v of 2000, want up to %v", name, most, test.most)
		}
	}
}

func TestTextForms(t *testing.T) {
	t.Parallel()
	id := task.NewID()
	b, err := json.Marshal(task.Hint{ID: id, Kind: "k", Owner: "o", RunAt: 5, Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	var back task.Hint
	if err := json.Unmarshal(b, &back); err != nil || back.ID != id || back.Moment().UnixMilli() != 5 {
		t.Errorf("hint came back as %+v, %v", back, err)
	}
	if got, err := task.IDFromBytes(id[:]); err != nil || got != id {
		t.Errorf("id from bytes is %v, %v", got, err)
	}
	if _, err := task.IDFromBytes(id[:15]); err == nil {
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
