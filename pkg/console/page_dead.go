package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

const maxDeadGroups = 200

// deadView is the data of the view.
type deadView struct {
	Reading
	Typed  string // since when
	Since  string // as the forms send it back, to the minute
	From   int64  // the same in Unix milliseconds; 0: all
	Groups []DeadGroup
	Kinds  []DeadKind // of which all can be retried or discarded
	Cut    bool       // there are older dead tasks
	Tasks  int64
	List   *deadList // instead of the groups: the tasks of a kind
}

// deadList is what is dead of a kind, or of a kind with an error: those that a change of it would take.
type deadList struct {
	Facts       []string
	Tasks       []Task // the first of them
	Found       int
	More        bool   // there may be more than were found
	Back        string // where the groups are
	Retry, Drop string // where the changes of all of them begin
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
	out := &deadView{Typed: strings.TrimSpace(v.r.FormValue("since"))}
	q, c := DeadQuery{Limit: maxDeadGroups}, v.site.c
	if out.Typed != "" {
		at, err := parseBound(out.Typed, v.now)
		if err != nil {
			return out, err
		}
		q.Since = at.Truncate(time.Minute) // what is typed as -2h is one reading for a minute
		out.From = q.Since.UnixMilli()
		out.Since = v.Typed(out.From)
	}
	if v.r.FormValue("kind") != "" {
		return out, out.list(ctx, v)
	}
	read := readShared(ctx, v.site.readings, fmt.Sprint("dead ", out.From), func(ctx context.Context) (deadRead, error) {
		groups, cut, err := c.DeadGroups(ctx, q)
		return deadRead{groups, cut}, err
	})
	out.Reading, out.Groups, out.Cut = read.about(), read.value.groups, read.value.cut
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

// list finds the tasks of the kind.
func (d *deadView) list(ctx context.Context, v *visit) error {
	choice, err := deadChoiceOf(v)
	if err != nil {
		return err
	}
	found, more, err := deadAlike(ctx, v, choice)
	if err != nil {
		return err
	}
	change := func(name string) string {
		return v.Link("change", "do", name, "kind", choice.kind, "error", choice.alike, "any", v.r.FormValue("any"), "since", d.Since)
	}
	d.List = &deadList{
		Facts: choice.facts(v), Tasks: found[:min(len(found), DefaultPage)], Found: len(found), More: more,
		Back: v.Link("dead", "since", d.Since), Retry: change("dead.retry"), Drop: change("dead.discard"),
	}
	return nil
}

const (
	deadPage    = walkScanned // tasks that one walk returns: as many as it reads
	deadScanned = 30_000      // dead tasks, in search of those of a kind with an error
	deadAtOnce  = 5000        // that one change takes: some seconds
	errorRead   = 200         // characters of an error by which it is told from others, as DeadGroups has it
)

// deadChoice is which dead tasks of a kind are to be changed.
type deadChoice struct {
	kind, alike string
	any         bool        // whatever their error
	since       time.Time   // when they died at the earliest
	last        task.Cursor // of those that were shown, by their run times; zero: none was
}

func deadChoiceOf(v *visit) (deadChoice, error) {
	d := deadChoice{kind: v.r.FormValue("kind"), alike: v.r.FormValue("error"), any: v.r.FormValue("any") != ""}
	var err error
	if text := v.r.FormValue("since"); text != "" {
		if d.since, err = parseBound(text, v.now); err != nil {
			return d, err
		}
	}
	d.last, err = parseWalkCursor(v.r.FormValue("last"))
	return d, err
}

func (d deadChoice) chooses(t Task) bool {
	died := time.UnixMilli(t.UpdatedAtMs)
	if t.FinishedAt != nil {
		died = time.UnixMilli(*t.FinishedAt)
	}
	return !died.Before(d.since) && !d.isPast(t) && (d.any || alikeError(beginning(t.LastError)) == d.alike)
}

// isPast reports whether a task comes after all that were shown: one that was retried comes later when it dies once more, and the rest
// of more than one change takes. So a form that is sent twice changes each task once.
func (d deadChoice) isPast(t Task) bool {
	if d.last == (task.Cursor{}) {
		return false
	}
	return cmp.Or(time.UnixMilli(t.RunAtMs).Compare(d.last.At), t.ID.Compare(d.last.ID)) > 0
}

// facts says it to the user.
func (d deadChoice) facts(v *visit) []string {
	facts := []string{v.T("fact.dead", cleaned(d.kind), cleaned(d.alike))}
	if d.any {
		facts = []string{v.T("fact.deadany", cleaned(d.kind))}
	}
	if !d.since.IsZero() {
		facts = append(facts, v.T("fact.since", v.At(d.since.UnixMilli()).Text))
	}
	return facts
}

// deadAlike finds the dead tasks that are chosen. More says that there may be others.
func deadAlike(ctx context.Context, v *visit, d deadChoice) (found []Task, more bool, err error) {
	done, err := v.site.oneAtATime(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	f := Filter{Kind: d.kind, State: new(task.Dead), Limit: deadPage}
	if !d.last.At.IsZero() {
		f.runBefore = d.last.At.Add(time.Millisecond)
	}
	for range deadScanned / walkScanned {
		page, err := v.c.walk(ctx, f, 0)
		if err != nil {
			return nil, false, err
		}
		for _, t := range page.Tasks {
			if d.chooses(t) {
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

func deadBack(v *visit) string { return v.Link("dead", "since", v.r.FormValue("since")) }

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
		choice, err := deadChoiceOf(v)
		if err != nil {
			return question{}, err
		}
		found, more, err := deadAlike(ctx, v, choice)
		if err != nil {
			return question{}, err
		}
		const shown = 10
		q := question{
			Title: v.T(key, grouped(strconv.Itoa(len(found)))), Sample: found[:min(len(found), shown)], Back: deadBack(v),
			Facts: choice.facts(v), Empty: len(found) == 0, Grave: grave,
		}
		if more {
			q.Facts = append(q.Facts, v.T("fact.deadcut"))
		}
		if n := len(found); n > 0 {
			last := task.Cursor{At: time.UnixMilli(found[n-1].RunAtMs), ID: found[n-1].ID}
			q.Hidden = map[string][]string{"last": {formatWalkCursor(last)}}
		}
		return q, nil
	}
}

// doDead changes those that are dead of the error by now, among those that were shown.
func doDead(
	do func(c *Console, ctx context.Context, ids []task.ID, progress func(done int)) (Bulk, error), key string,
) func(ctx context.Context, v *visit) (answer, error) {
	return func(ctx context.Context, v *visit) (answer, error) {
		choice, err := deadChoiceOf(v)
		if err != nil {
			return answer{}, err
		}
		found, more, err := deadAlike(ctx, v, choice)
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
		did := answer{Text: v.T(key, out.Changed), Back: deadBack(v)}
		if len(out.Left)+len(out.KeyTaken) > 0 {
			did.Notes = append(did.Notes, v.T("did.dead.left", len(out.Left), len(out.KeyTaken)))
		}
		if more {
			did.Notes = append(did.Notes, v.T("fact.deadcut"))
		}
		return did, nil
	}
}
