package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// blockedRows takes no task of ann, nor what comes with one.
type blockedRows struct{ made []string } // owners

func (*blockedRows) Clock(context.Context) (time.Time, error) { return time.Time{}, nil }

func (*blockedRows) Rows(context.Context, []task.ID) ([]task.Task, error) { return nil, nil }

func (b *blockedRows) Import(_ context.Context, specs []task.Spec, _ string) error {
	if slices.ContainsFunc(specs, func(s task.Spec) bool { return s.Owner() == "ann" }) {
		return fmt.Errorf("schedule: %w", task.ErrOwnerBlocked)
	}
	for _, s := range specs {
		b.made = append(b.made, s.Owner())
	}
	return nil
}

// Members of blocked owners are refused, and the import goes on with the others.
func TestBlockedOwnersAreLeftOut(t *testing.T) {
	t.Parallel()
	rows := &blockedRows{}
	var refused []Unreadable
	r := &run{rows: rows, source: &ZSet{}, cfg: Config{Overdue: true, Unreadable: func(u Unreadable) { refused = append(refused, u) }}}
	kind := task.NewKind[json.RawMessage]("meal")
	var all []wanted
	for _, owner := range []string{"bob", "ann", "carl"} {
		all = append(all, wanted{member: "of " + owner, spec: kind.New(owner, nil, task.At(time.Now()))})
	}
	pipelinetest.Must(t, r.write(t.Context(), all))
	if d := cmp.Diff([]string{"bob", "carl"}, rows.made); d != "" {
		t.Errorf("made for (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]Unreadable{{"of ann", "owner is blocked"}}, refused); d != "" {
		t.Errorf("refused (-want +got):\n%s", d)
	}
	if r.sum.Imported != 2 || r.sum.Unreadable != 1 {
		t.Errorf("counted: %+v, want 2 imported and 1 unreadable", r.sum)
	}
}
