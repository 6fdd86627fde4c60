package console

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/duetime/duetime/pkg/task"
)

const maxDeadGroups = 200

// deadView is the data of the view.
type deadView struct {
	Reading
	Groups []DeadGroup
	Kinds  []DeadKind // of which all can be retried or discarded
	Cut    bool       // there are older dead tasks
	Tasks  int64
}

type deadRead struct {
	groups []DeadGroup
	cut    bool
}

// DeadKind is what is dead of one kind.
type DeadKind struct {
	Kind          string
	Tasks         int64
	Errors        int
	FirstMs, Last int64
}

func readDead(ctx context.Context, v *visit) (any, error) {
	c := v.site.c
	read := readShared(ctx, v.site.readings, "dead", func(ctx context.Context) (deadRead, error) {
		groups, cut, err := c.DeadGroups(ctx, maxDeadGroups)
		return deadRead{groups, cut}, err
	})
	out := &deadView{Reading: read.about(), Groups: read.value.groups, Cut: read.value.cut}
	kinds := map[string]int{} // places in out.Kinds
	for _, g := range out.Groups {
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

const (
	deadPage    = walkScanned // tasks that one walk returns: as many as it reads
	deadScanned = 30_000      // dead tasks, in search of those of a kind with an error
	deadAtOnce  = 5000        // that one change takes: some seconds
	errorRead   = 200         // characters of an error by which it is told from others, as DeadGroups has it
)

// deadAlike finds the dead tasks of a kind with alike errors. More says that there may be others.
func deadAlike(ctx context.Context, c *Console, kind, alike string) (found []Task, more bool, err error) {
	f := Filter{Kind: kind, State: new(task.Dead), Limit: deadPage}
	for range deadScanned / walkScanned {
		page, err := c.walk(ctx, f, 0)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			if alikeError(beginning(t.LastError)) == alike {
				found = append(found, t)
			}
		}
		if len(found) >= deadAtOnce {
			return found[:deadAtOnce], true, nil
		}
		if f.After = page.Next; page.Next == "" {
			return found, false, nil
		}
	}
	return found, true, nil
}

func beginning(text string) string {
	n := 0
	for i := range text {
		if n == errorRead {
			return text[:i]
		}
		n++
	}
	return text
}

func askDead(key string, grave bool) func(ctx context.Context, v *visit) (question, error) {
	return func(ctx context.Context, v *visit) (question, error) {
		kind, alike := v.r.FormValue("kind"), v.r.FormValue("error")
		found, more, err := deadAlike(ctx, v.c, kind, alike)
		if err != nil {
			return question{}, err
		}
		const shown = 10
		q := question{
			Title: v.T(key, grouped(strconv.Itoa(len(found)))), Sample: found[:min(len(found), shown)], Back: "dead",
			Facts: []string{v.T("fact.dead", cleaned(kind), cleaned(alike))}, Empty: len(found) == 0, Grave: grave,
		}
		if more {
			q.Facts = append(q.Facts, v.T("fact.deadcut"))
		}
		return q, nil
	}
}

// doDead changes those that are dead of the error by now.
func doDead(
	do func(c *Console, ctx context.Context, ids []task.ID, progress func(done int)) (Bulk, error), key string,
) func(ctx context.Context, v *visit) (answer, error) {
	return func(ctx context.Context, v *visit) (answer, error) {
		found, more, err := deadAlike(ctx, v.c, v.r.FormValue("kind"), v.r.FormValue("error"))
		if err != nil {
			return answer{}, err
		}
		if len(found) == 0 {
			return answer{}, errNothing
		}
		ids := make([]task.ID, len(found))
		for i, t := range found {
			ids[i] = t.ID
		}
		out, err := do(v.c, ctx, ids, nil)
		if err != nil {
			return answer{}, err
		}
		did := answer{Text: v.T(key, out.Changed), Back: "dead"}
		if len(out.Left)+len(out.KeyTaken) > 0 {
			did.Notes = append(did.Notes, v.T("did.dead.left", len(out.Left), len(out.KeyTaken)))
		}
		if more {
			did.Notes = append(did.Notes, v.T("fact.deadcut"))
		}
		return did, nil
	}
}
