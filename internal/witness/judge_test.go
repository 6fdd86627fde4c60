package witness

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/pkg/task"
)

func at(ms int64) time.Time { return time.UnixMilli(ms) }

// TestJudge shows the judge broken histories: it must call each by its name, and nothing else a fault.
func TestJudge(t *testing.T) {
	t.Parallel()
	kept := func() *promise { return &promise{Part: "task", ID: task.NewID(), Is: state{Due: 100, Data: 1}} }
	ran := effect{Seq: 1, Part: "task", Due: at(100), At: at(101), Data: 1}
	with := func(change func(*effect)) effect { e := ran; change(&e); return e }
	for _, c := range []struct {
		name    string
		promise func(*promise)
		effects []effect
		want    []string
	}{
		{"as promised", func(*promise) {}, []effect{ran}, nil},
		{"not yet", func(*promise) {}, nil, nil},
		{"a second effect", func(*promise) {}, []effect{ran, with(func(e *effect) { e.Seq = 2 })}, []string{doubled}},
		{"before its row's time", func(*promise) {}, []effect{with(func(e *effect) { e.At = at(99) })}, []string{early}},
		{"at a time before the one that it was moved to", func(p *promise) { p.Is.Due = 300 }, []effect{ran}, []string{early}},
		{"at a later time than it was moved to", func(p *promise) { p.Is.Due = 50 }, []effect{ran}, []string{stale}},
		{"with data that was replaced", func(p *promise) { p.Is.Data = 2 }, []effect{ran}, []string{stale}},
		{"replaced by another", func(p *promise) { p.Is = state{None: true, Replaced: true} }, []effect{ran}, []string{stale}},
		{"after its cancel", func(p *promise) { p.Is = state{None: true} }, []effect{ran}, []string{afterCancel}},
		{"a tick made after its time", func(p *promise) { p.Is.Due, p.Is.Later = 50, true }, []effect{ran}, nil},
		{"a tick before its time", func(p *promise) { p.Is.Due, p.Is.Later = 300, true }, []effect{ran}, []string{early}},
		{"any time", func(p *promise) { p.Is.Due = 0 }, []effect{ran}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := kept()
			c.promise(p)
			if diff := cmp.Diff(c.want, judge([]*promise{p}, c.effects)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJudgeOrder(t *testing.T) {
	t.Parallel()
	promises := []*promise{
		{Part: "first", Is: state{Due: 100, Data: 1}}, {Part: "second", Is: state{Due: 100, Data: 1}, After: []string{"first"}},
	}
	effects := []effect{{Seq: 1, Part: "first", Due: at(100), At: at(101), Data: 1}, {Seq: 2, Part: "second", Due: at(100), At: at(101), Data: 1}}
	if got := judge(promises, effects); got != nil {
		t.Errorf("in order: %v", got)
	}
	effects[0].Seq = 3
	if got := judge(promises, effects); !slices.Equal(got, []string{inverted}) {
		t.Errorf("the other way round: %v", got)
	}
	if got := judge(promises, effects[1:]); !slices.Equal(got, []string{inverted}) {
		t.Errorf("without the first: %v", got)
	}
}
