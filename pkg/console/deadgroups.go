package console

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/console/internal/views"
	"github.com/duetime/duetime/pkg/task"
)

// maxDeadGroups bounds the groups of DeadGroups.
const maxDeadGroups = 1000

// deadScan is how many dead tasks DeadGroups reads.
const deadScan = 5000

// DeadGroup is the dead tasks of one kind that died of alike errors.
type DeadGroup struct {
	Kind    string  `json:"kind"`
	Error   string  `json:"error"` // its beginning, with # for each number and id, so that alike errors are one group
	Tasks   int64   `json:"tasks"`
	FirstMs int64   `json:"first_ms"` // when the first of them died
	LastMs  int64   `json:"last_ms"`
	Example task.ID `json:"example"` // the one that died last
}

// DeadQuery asks for groups of dead tasks.
type DeadQuery struct {
	Since time.Time // tasks that died at this moment or after it; zero: all
	Limit int       // groups, by default 100, at most 1000
}

// DeadGroups groups the newest 5,000 dead tasks, the largest group first. cut says that there are more dead tasks, or more
// groups.
func (c *Console) DeadGroups(ctx context.Context, q DeadQuery) (groups []DeadGroup, cut bool, err error) {
	limit, err := checkLimit(cmp.Or(q.Limit, DefaultPage), maxDeadGroups)
	if err != nil {
		return nil, false, err
	}
	dead, err := c.views.Dead(ctx, deadScan+1)
	if err != nil {
		return nil, false, err
	}
	cut = len(dead) > deadScan
	dead = slices.DeleteFunc(dead[:min(len(dead), deadScan)], func(d views.DeadTask) bool { return d.Died.Before(q.Since) })
	groups = deadGroups(dead)
	cut = cut || len(groups) > limit
	return groups[:min(len(groups), limit)], cut, nil
}

func deadGroups(dead []views.DeadTask) []DeadGroup {
	type key struct{ kind, text string }
	found, texts := map[key]*DeadGroup{}, map[string]string{}
	for _, d := range dead {
		text, known := texts[d.Error]
		if !known {
			text = alikeError(d.Error)
			texts[d.Error] = text
		}
		at := d.Died.UnixMilli()
		g := found[key{d.Kind, text}]
		if g == nil {
			g = &DeadGroup{Kind: d.Kind, Error: text, FirstMs: at, LastMs: at, Example: d.ID}
			found[key{d.Kind, text}] = g
		}
		g.Tasks++
		g.FirstMs = min(g.FirstMs, at)
		if at > g.LastMs {
			g.LastMs, g.Example = at, d.ID
		}
	}
	groups := make([]DeadGroup, 0, len(found))
	for _, g := range found {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b DeadGroup) int {
		return cmp.Or(
			-cmp.Compare(a.Tasks, b.Tasks), -cmp.Compare(a.LastMs, b.LastMs), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Error, b.Error),
		)
	})
	return groups
}
