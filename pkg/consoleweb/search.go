package consoleweb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// searchForm is what the search's form holds, as it was typed.
type searchForm struct {
	ID, Owner, Kind, Queue, Subject, Label, State, After, Before, Cursor string

	ExcludeKind, ExcludeLabel string // parted by commas

	Bounds string // byRun: After and Before bound the run time, as the steps of Ahead do; else the due time
}

const byRun = "run"

func formOf(q url.Values) searchForm {
	get := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return searchForm{
		ID: get("id"), Owner: q.Get("owner"), Kind: get("kind"), Queue: get("queue"), Subject: q.Get("subject"), Label: get("label"),
		State: get("state"), After: get("after"), Before: get("before"), Cursor: get("cursor"), Bounds: get("bounds"),
		ExcludeKind: get("excludekind"), ExcludeLabel: get("excludelabel"),
	}
}

// pairs are the form's values as Link takes them, without id and cursor.
func (f searchForm) pairs() []any {
	return []any{
		"owner", f.Owner, "kind", f.Kind, "queue", f.Queue, "subject", f.Subject, "label", f.Label, "state", f.State,
		"after", f.After, "before", f.Before, "bounds", f.Bounds, "excludekind", f.ExcludeKind, "excludelabel", f.ExcludeLabel,
	}
}

// ByRun reports whether the bounds are of the run time. A mass change has none of these.
func (f searchForm) ByRun() bool {
	return f.Bounds == byRun && f.Owner == "" && f.Label == "" && f.After+f.Before != ""
}

// window reads the bounds; zero times are no bound.
func (f searchForm) window(now time.Time) (after, before time.Time, err error) {
	if f.After != "" {
		if after, err = parseBound(f.After, now); err != nil {
			return after, before, err
		}
	}
	if f.Before != "" {
		before, err = parseBound(f.Before, now)
	}
	return after, before, err
}

// labels reads name=value, parted by commas.
func (f searchForm) labels() (map[string]string, error) {
	if f.Label == "" {
		return nil, nil
	}
	all := map[string]string{}
	for part := range strings.SplitSeq(f.Label, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return nil, fmt.Errorf("%w as a label, name=value: %q", errMistake, part)
		}
		if err := protocol.CheckLabel(name, value); err != nil {
			return nil, err
		}
		all[name] = value
	}
	return all, nil
}

// exclusion reads kinds, and labels as name=value, parted by commas.
func (f searchForm) exclusion() task.Exclusion {
	return task.Exclusion{Kinds: parted(f.ExcludeKind), Labels: parted(f.ExcludeLabel)}
}

func parted(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func (f searchForm) filter(now time.Time) (console.Filter, error) {
	out := console.Filter{Owner: f.Owner, Kind: f.Kind, Queue: f.Queue, Subject: f.Subject, After: f.Cursor, Limit: console.DefaultPage, Exclude: f.exclusion()}
	var err error
	if out.DueAfter, out.DueBefore, err = f.window(now); err != nil {
		return out, err
	}
	if f.ByRun() {
		out.RunAfter, out.RunBefore, out.DueAfter, out.DueBefore = out.DueAfter, out.DueBefore, time.Time{}, time.Time{}
	}
	if out.Labels, err = f.labels(); err != nil {
		return out, err
	}
	if f.State != "" {
		state, err := task.ParseState(f.State)
		if err != nil {
			return out, err
		}
		out.State = &state
	}
	return out, nil
}

// bulkFilter is the filter of an operation, which has its state by its verb.
func (f searchForm) bulkFilter(now time.Time) (task.Filter, error) {
	out := task.Filter{Owner: f.Owner, Kind: f.Kind, Queue: f.Queue, Subject: f.Subject, Exclude: f.exclusion()}
	var err error
	if out.DueAfter, out.DueBefore, err = f.window(now); err != nil {
		return out, err
	}
	if out.Labels, err = f.labels(); err != nil {
		return out, err
	}
	out.All = f.Owner+f.Kind+f.Queue+f.Subject+f.Label+f.After+f.Before == ""
	return out, nil
}

// search is the data of the view.
type search struct {
	Form   searchForm
	States []string
	Queues []string
	Page   console.Page
	// Bounds are those of the window as they were understood, in Unix milliseconds; 0: none.
	Bounds [2]int64
	// Pending says that pending tasks alone were searched: without an owner or a label there is no list of all states.
	Pending bool
	Next    string // the next page's address
	GoesOn  string // where a search that has found nothing yet goes on by itself
	// NoneSoFar says that a search went on by itself, and the pages before have no task.
	NoneSoFar bool
	First     string // the first page's, from a later one
	Verbs     []bulkChoice
	Renewed   bool // the list is read again and again: it costs little
}

// bulkChoice is a mass change that the search offers.
type bulkChoice struct{ Verb, Grant string }

// bulkChoices are the mass changes of tasks in a state.
func bulkChoices(v *visit, state string) []bulkChoice {
	var offered []bulkChoice
	for _, b := range bulkVerbs() {
		if from, _ := b.verb.From(); (state == "" || from.String() == state) && v.May(b.grant) {
			offered = append(offered, bulkChoice{string(b.verb), b.grant})
		}
	}
	return offered
}

func stateNames() []string {
	var names []string
	for state := task.Pending; state <= task.Dead; state++ {
		names = append(names, state.String())
	}
	return names
}

func readSearch(ctx context.Context, v *visit) (any, error) {
	form := formOf(v.r.URL.Query())
	out := &search{Form: form, States: stateNames(), Queues: v.c.QueueNames(), NoneSoFar: v.r.FormValue("none") != ""}
	if form.ID != "" {
		out.Renewed = true
		return out, out.byID(ctx, v)
	}
	filter, err := form.filter(v.now)
	if err != nil {
		return out, err
	}
	for i, at := range []time.Time{cmp.Or(filter.DueAfter, filter.RunAfter), cmp.Or(filter.DueBefore, filter.RunBefore)} {
		if !at.IsZero() {
			out.Bounds[i] = at.UnixMilli()
		}
	}
	if filter.Owner == "" {
		done, err := v.site.oneAtATime(ctx)
		if err != nil {
			return out, err
		}
		defer done()
	}
	out.Pending, out.Renewed = filter.Walks() && filter.State == nil, !filter.Walks()
	if out.Page, err = v.c.ListBounded(ctx, filter); err != nil {
		return out, err
	}
	if out.Page.Next != "" {
		next := append(form.pairs(), "cursor", out.Page.Next)
		out.Next, out.GoesOn = v.Link("tasks", next...), v.Link("tasks", append(next, "part", "live", "none", "1")...)
	}
	if form.Cursor != "" {
		out.First = v.Link("tasks", form.pairs()...)
	}
	if !form.ByRun() {
		out.Verbs = bulkChoices(v, form.State)
	}
	return out, nil
}

// byID finds one task.
func (s *search) byID(ctx context.Context, v *visit) error {
	id, err := task.ParseID(s.Form.ID)
	if err != nil {
		return fmt.Errorf("%w as an id: %q", errMistake, s.Form.ID)
	}
	rows, err := v.c.Rows(ctx, []task.ID{id})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return task.ErrNotFound
	}
	s.Page.Tasks = []console.Task{console.TaskOf(rows[0])}
	return nil
}

// idOf reads the id of a query.
func idOf(v *visit) (task.ID, error) {
	id, err := task.ParseID(strings.TrimSpace(v.r.FormValue("id")))
	if err != nil {
		return id, errors.Join(errNoPage, err)
	}
	return id, nil
}
