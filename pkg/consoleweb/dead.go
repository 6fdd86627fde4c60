package consoleweb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

const maxDeadGroups = 200

// deadView is the data of the view.
type deadView struct {
	freshness
	Typed string // since when
	Since string // as the forms send it back, to the minute
	From  int64  // the same in Unix milliseconds; 0: all
	Kinds []deadKind
	Cut   bool // there are older dead tasks
	Tasks int64
	List  *deadList // instead of the groups: the tasks of a kind
}

// deadList is what is dead of a kind, or of a kind with an error: those that a change of it would take.
type deadList struct {
	Facts       []string
	Tasks       []console.Task // the first of them
	Found       int
	More        bool   // there may be more than were found
	Back        string // where the groups are
	Retry, Drop string // where the changes of all of them begin
}

type deadRead struct {
	groups []console.DeadGroup
	cut    bool
}

// deadKind is what is dead of one kind, by its errors.
type deadKind struct {
	Kind   string
	Tasks  int64
	Groups []console.DeadGroup
}

// deadCount is how many tasks are dead, as one of the readings says.
type deadCount struct {
	text string
	n    int64
	atMs int64
}

// Dead is how many tasks are dead, for the menu; empty if there are none, or nobody has counted them for a while.
func (v *visit) Dead() string {
	const old = time.Minute
	if d := v.site.dead.Load(); d != nil && d.n > 0 && time.Since(time.UnixMilli(d.atMs)) < old {
		return d.text
	}
	return ""
}

func readDead(ctx context.Context, v *visit) (any, error) {
	out := &deadView{Typed: strings.TrimSpace(v.r.FormValue("since"))}
	q, c := console.DeadQuery{Limit: maxDeadGroups}, v.site.c
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
	read := readFor(ctx, v, fmt.Sprint("dead ", out.From), func(ctx context.Context) (deadRead, error) {
		groups, cut, err := c.DeadGroups(ctx, q)
		return deadRead{groups, cut}, err
	})
	out.freshness, out.Cut = read.about(), read.value.cut
	kinds := map[string]int{} // places in out.Kinds
	for _, g := range read.value.groups {
		out.Tasks += g.Tasks
		at, known := kinds[g.Kind]
		if !known {
			at = len(out.Kinds)
			kinds[g.Kind] = at
			out.Kinds = append(out.Kinds, deadKind{Kind: g.Kind})
		}
		k := &out.Kinds[at]
		k.Tasks, k.Groups = k.Tasks+g.Tasks, append(k.Groups, g)
	}
	slices.SortStableFunc(out.Kinds, func(a, b deadKind) int { return cmp.Compare(b.Tasks, a.Tasks) })
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
		return v.Link("change", "do", name, "kind", choice.Kind, "error", choice.Error, "any", v.r.FormValue("any"), "since", d.Since)
	}
	d.List = &deadList{
		Facts: deadFacts(v, choice), Tasks: found[:min(len(found), console.DefaultPage)], Found: len(found), More: more,
		Back: v.Link("dead", "since", d.Since), Retry: change("dead.retry"), Drop: change("dead.discard"),
	}
	return nil
}

// deadChoiceOf reads which dead tasks of a kind are shown.
func deadChoiceOf(v *visit) (console.DeadChoice, error) {
	d := console.DeadChoice{
		Kind: v.r.FormValue("kind"), Error: v.r.FormValue("error"), Any: v.r.FormValue("any") != "",
	}
	var err error
	if text := v.r.FormValue("since"); text != "" {
		d.Since, err = parseBound(text, v.now)
	}
	return d, err
}

// deadFacts says it to the user.
func deadFacts(v *visit, d console.DeadChoice) []string {
	facts := []string{v.T("fact.dead", cleaned(d.Kind), cleaned(d.Error))}
	if d.Any {
		facts = []string{v.T("fact.deadany", cleaned(d.Kind))}
	}
	if !d.Since.IsZero() {
		facts = append(facts, v.T("fact.since", v.At(d.Since.UnixMilli()).Text))
	}
	return facts
}

// deadAlike finds the dead tasks that are chosen, while nobody else reads rows of all owners.
func deadAlike(ctx context.Context, v *visit, d console.DeadChoice) (found []console.Task, more bool, err error) {
	done, err := v.site.oneAtATime(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	return v.c.DeadAlike(ctx, d)
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
			Title: v.T(key, grouped(strconv.Itoa(len(found)))), Sample: found[:min(len(found), shown)], Back: v.Link("dead", "since", v.r.FormValue("since")),
			Facts: deadFacts(v, choice), Empty: len(found) == 0, Grave: grave,
		}
		if more {
			q.Facts = append(q.Facts, v.T("fact.deadcut"))
		}
		if len(found) > 0 {
			ids, died := make([]string, len(found)), int64(0)
			for i, t := range found {
				ids[i] = t.ID.String()
				if t.FinishedAt != nil {
					died = max(died, *t.FinishedAt)
				}
			}
			q.Hidden = map[string][]string{
				"ids": {strings.Join(ids, " ")}, "before": {strconv.FormatInt(died+1, 10)}, formID: {task.NewID().String()},
			}
		}
		return q, nil
	}
}

// doDead changes the tasks that were shown, but for those that have died once more since.
func doDead(verb task.Verb) func(ctx context.Context, v *visit) (answer, error) {
	return func(ctx context.Context, v *visit) (answer, error) {
		o := task.Operation{Verb: verb}
		for text := range strings.FieldsSeq(v.r.FormValue("ids")) {
			id, err := task.ParseID(text)
			if err != nil {
				return answer{}, fmt.Errorf("%w: %w", errMistake, err)
			}
			o.Filter.IDs = append(o.Filter.IDs, id)
		}
		if o.Matched = int64(len(o.Filter.IDs)); o.Matched == 0 {
			return answer{}, errNothing // no task was shown
		}
		before, err := strconv.ParseInt(v.r.FormValue("before"), 10, 64)
		if err != nil {
			return answer{}, fmt.Errorf("%w as Unix milliseconds: %w", errMistake, err)
		}
		o.Filter.DiedBefore = time.UnixMilli(before)
		return begin(ctx, v, o)
	}
}
