package console

import (
	"cmp"
	"context"
	"slices"
)

const maxDeadGroups = 200

// deadView is the data of the view.
type deadView struct {
	Groups []DeadGroup
	Kinds  []DeadKind // of which all can be retried or discarded
	Cut    bool       // there are older dead tasks
	Tasks  int64
}

// DeadKind is what is dead of one kind.
type DeadKind struct {
	Kind          string
	Tasks         int64
	Errors        int
	FirstMs, Last int64
}

func readDead(ctx context.Context, v *visit) (any, error) {
	groups, cut, err := v.c.DeadGroups(ctx, maxDeadGroups)
	if err != nil {
		return nil, err
	}
	out := &deadView{Groups: groups, Cut: cut}
	kinds := map[string]int{} // places in out.Kinds
	for _, g := range groups {
		out.Tasks += g.Tasks
		at, known := kinds[g.Kind]
		if !known {
			at = len(out.Kinds)
			kinds[g.Kind] = at
			out.Kinds = append(out.Kinds, DeadKind{Kind: g.Kind, FirstMs: g.FirstMs, Last: g.LastMs})
		}
		k := &out.Kinds[at]
		k.Tasks, k.Errors = k.Tasks+g.Tasks, k.Errors+1
		k.FirstMs, k.Last = min(k.FirstMs, g.FirstMs), max(k.Last, g.LastMs)
	}
	slices.SortStableFunc(out.Kinds, func(a, b DeadKind) int { return cmp.Compare(b.Tasks, a.Tasks) })
	return out, nil
}
