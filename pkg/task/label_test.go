package task_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

func labels(n int) (opts []task.Option) {
	for i := range n {
		opts = append(opts, task.Label(fmt.Sprintf("l%d", i), "v"))
	}
	return opts
}

func TestLabelLimitsNameFieldAndLimit(t *testing.T) {
	t.Parallel()
	const name = `must have a name of 1 to 32 characters of a-z 0-9 . _ -, the first a letter`
	long := strings.Repeat("a", 33)
	for what, c := range map[string]struct {
		opts []task.Option
		want string // of the error; empty for what is accepted
	}{
		"longest":        {[]task.Option{task.Label("a."+strings.Repeat("_", 29)+"9", strings.Repeat("é", 32))}, ""},
		"braces":         {[]task.Option{task.Label("a", "{b}")}, ""},
		"most":           {labels(8), ""},
		"too many":       {labels(9), "labels must be at most 8, and are 9"},
		"long name":      {[]task.Option{task.Label(long, "v")}, `label "` + long + `" ` + name},
		"no name":        {[]task.Option{task.Label("", "v")}, `label "" ` + name},
		"upper case":     {[]task.Option{task.Label("aB", "v")}, `label "aB" ` + name},
		"begins with 1":  {[]task.Option{task.Label("1a", "v")}, `label "1a" ` + name},
		"long value":     {[]task.Option{task.Label("a", strings.Repeat("v", 65))}, "label a must be 1 to 64 bytes"},
		"no value":       {[]task.Option{task.Label("a", "")}, "label a must be 1 to 64 bytes"},
		"no UTF-8":       {[]task.Option{task.Label("a", "\xff")}, "label a must be valid UTF-8"},
		"blank":          {[]task.Option{task.Label("a", "v ")}, "label a must not begin or end with a blank"},
		"control":        {[]task.Option{task.Label("a", "v\nw")}, "label a must not contain control characters"},
		"a group's":      {[]task.Option{task.Label("duetime.group", "v")}, "label duetime.group must not be given: members of a group have it"},
		"one name twice": {[]task.Option{task.Label("a", "v"), task.Label("a", "v")}, "label a must be given once"},
	} {
		_, err := task.NewKind[int]("k").New("ann", 1, task.In(time.Hour), c.opts...).Resolve(now)
		var field *task.FieldError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &field) || err.Error() != c.want) {
			t.Errorf("%s: error is %v, want %s", what, err, c.want)
		}
	}
}

// A spec that a function gets and gives back changed leaves its caller's spec as it was.
func TestLabelsOfSpecs(t *testing.T) {
	t.Parallel()
	kind := task.NewKind[int]("k")
	if got := kind.New("ann", 1, task.In(0)); got.Labels() != nil {
		t.Errorf("without labels: %v", got.Labels())
	}
	base := kind.New("ann", 1, task.In(0), labels(3)...)
	one, other := base.With(task.Label("x", "1")), base.With(task.Label("x", "2"))
	want := []map[string]string{
		{"l0": "v", "l1": "v", "l2": "v"}, {"l0": "v", "l1": "v", "l2": "v", "x": "1"}, {"l0": "v", "l1": "v", "l2": "v", "x": "2"},
	}
	if d := cmp.Diff(want, []map[string]string{base.Labels(), one.Labels(), other.Labels()}); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
	_, err := kind.Recurring("ann", 1, task.Label("a", "v")).Recurrence("r", recur.Every(time.Hour), recur.Policy{}, now)
	if err == nil || err.Error() != "labels must not be set: tasks of a recurrence have none" {
		t.Errorf("a recurrence with labels: %v", err)
	}
}

func TestFilterByLabels(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]task.Filter{
		"": {Labels: map[string]string{"a": "v"}},
		"filter must choose tasks by a field, or say all":                                        {Labels: map[string]string{}},
		"all must not be set beside other fields of the filter, but for exclude and died_before": {All: true, Labels: map[string]string{"a": "v"}},
		"label a must be 1 to 64 bytes":                                                          {Labels: map[string]string{"a": ""}},
		"labels must be at most 8, and are 9": {Labels: map[string]string{
			"a": "v", "b": "v", "c": "v", "d": "v", "e": "v", "f": "v", "g": "v", "h": "v", "i": "v",
		}},
	} {
		if err := f.Check(); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%v: %v, want %q", f, err, want)
		}
	}
	f := task.Filter{Kind: "k", Labels: map[string]string{"b": "2", "a": "1"}}
	if got := f.String(); got != "kind k, label a=1 b=2" {
		t.Errorf("in words: %s", got)
	}
}
