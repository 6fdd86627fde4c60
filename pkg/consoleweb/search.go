package consoleweb

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// earlierNames are those that addresses of earlier versions and links of other views have in place of q.
func earlierNames() []string {
	return []string{"owner", "kind", "queue", "state", "subject", "label", "excludekind", "excludelabel", "id", "after", "before", "bounds"}
}

// queryText is the query of an address or a form.
func queryText(values url.Values) string {
	var q query
	for _, name := range earlierNames() {
		key, value := strings.Replace(name, "exclude", "-", 1), values.Get(name)
		if trimmed := strings.TrimSpace(value); trimmed != "" && name != "owner" && name != "subject" { // blanks alone are a mistake
			value = trimmed
		}
		switch {
		case value == "" || !slices.Contains(queryKeys(), key):
		case repeats(key): // commas part several
			for one := range strings.SplitSeq(value, ",") {
				if one = strings.TrimSpace(one); one != "" || strings.Trim(value, ", ") == "" { // nothing but commas is a mistake
					q = append(q, clause{key, one})
				}
			}
		default:
			q = append(q, clause{key, value})
		}
	}
	if after, before := values.Get("after"), values.Get("before"); after+before != "" {
		key := "due"
		if values.Get("bounds") == byRun && !q.has("owner") && !q.has("label") {
			key = byRun
		}
		q = append(q, clause{key, after + ".." + before})
	}
	if q.has("id") {
		q = query{{"id", strings.TrimSpace(q.Value("id"))}}
	}
	return strings.TrimSpace(values.Get("q") + " " + q.String())
}

// query reads a query, and finds out what its words by themselves name.
func (v *visit) query(ctx context.Context, text string) (query, error) {
	q, err := readQuery(text)
	if err != nil {
		return nil, err
	}
	for i, c := range q {
		if c.Key != "" {
			continue
		}
		key, err := v.meaning(ctx, c.Value)
		if err != nil {
			return nil, err
		}
		if _, notID := task.ParseID(c.Value); key == "" && notID == nil {
			key = "id"
		}
		q[i].Key = cmp.Or(key, "owner")
		if q[:i].has(q[i].Key) { // else many words would cost many statements
			return nil, &clauseError{c.String(), errBeside}
		}
	}
	return q, nil
}

// filter is what the query chooses at a moment.
func (q query) filter(now time.Time) (console.Filter, error) {
	f := console.Filter{Limit: console.DefaultPage}
	for i, c := range q {
		err := c.narrow(&f, now)
		if !repeats(c.Key) && q[:i].has(c.Key) {
			err = errBeside
		}
		if err != nil {
			return f, &clauseError{c.String(), err}
		}
	}
	late := q.has(keyLate)
	for key, wrong := range map[string]bool{
		"id": len(q) > 1, byRun: !f.Walks(), "state": late && f.State != nil && *f.State != task.Pending,
	} {
		if wrong && q.has(key) {
			return f, &clauseError{clause{key, q.Value(key)}.String(), errBeside}
		}
	}
	if late {
		f.State = new(task.Pending)
		if f.DueBefore.IsZero() || now.Before(f.DueBefore) {
			f.DueBefore = now
		}
	}
	return f, nil
}

// narrow has the filter choose by one clause more.
func (c clause) narrow(f *console.Filter, now time.Time) (err error) {
	switch c.Key {
	case "owner":
		f.Owner = c.Value
	case "kind":
		f.Kind = c.Value
	case "queue":
		f.Queue = c.Value
	case "subject":
		f.Subject = c.Value
	case "-kind":
		f.Exclude.Kinds = append(f.Exclude.Kinds, c.Value)
	case "-label":
		f.Exclude.Labels = append(f.Exclude.Labels, c.Value)
	case "due":
		f.DueAfter, f.DueBefore, err = c.window(now)
	case byRun:
		f.RunAfter, f.RunBefore, err = c.window(now)
	case "id":
		_, err = task.ParseID(c.Value)
	case "state":
		var state task.State
		state, err = task.ParseState(c.Value)
		f.State = &state
	case "label":
		name, value, found := strings.Cut(c.Value, "=")
		if !found {
			return errNoClause
		}
		if _, twice := f.Labels[name]; twice {
			return errBeside
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[name], err = value, protocol.CheckLabel(name, value)
	}
	return err
}

// window reads from..before, of which one may be missing; a zero time is no bound.
func (c clause) window(now time.Time) (from, before time.Time, err error) {
	first, end, found := strings.Cut(c.Value, "..")
	if !found || first+end == "" {
		return from, before, errNoClause
	}
	if first != "" {
		from, err = parseBound(first, now)
	}
	if end != "" && err == nil {
		before, err = parseBound(end, now)
	}
	return from, before, err
}

// bulkFilter is the filter of an operation, which has its state by its verb, for what the list shows.
func bulkFilter(f console.Filter) task.Filter {
	out := task.Filter{
		Owner: f.Owner, Kind: f.Kind, Queue: f.Queue, Subject: f.Subject, Labels: f.Labels,
		DueAfter: f.DueAfter, DueBefore: f.DueBefore, Exclude: f.Exclude,
	}
	out.All = f.Owner+f.Kind+f.Queue+f.Subject == "" && len(f.Labels) == 0 && f.DueAfter.IsZero() && f.DueBefore.IsZero()
	return out
}

// search is the data of the view.
type search struct {
	Text   string // of the field
	Query  query
	Offers []string // what can be said next
	Page   console.Page
	Bounds []bound // of the windows as they were understood
	State  string  // of all tasks of the list; empty: they may be in any
	Walks  bool    // the list is in the order of the next attempts
	Next   string  // the next page's address
	GoesOn string  // where a search that has found nothing yet goes on by itself
	// NoneSoFar says that a search went on by itself, and the pages before have no task.
	NoneSoFar bool
	First     string // the first page's, from a later one
	Verbs     []bulkChoice
	Renewed   string // the address of the list if it is read again and again: it costs little
	Count     string // where the number of tasks that match is read, which the list doesn't say

	counted int64 // 0: not in time
}

// OneQueue is the queue that all listed tasks are in, which has no column then.
func (s *search) OneQueue() string { return oneQueue(s.Page.Tasks) }

// Matching is how many tasks a mass change of the list would take, as far as the list says.
func (s *search) Matching() string {
	switch {
	case s.State == "":
		return ""
	case s.counted > 0:
		return grouped(textOf(s.counted))
	case s.Next+s.First == "":
		return textOf(len(s.Page.Tasks))
	}
	return textOf(console.DefaultPage) + "+"
}

// bound is one end of a window, in Unix milliseconds, with the key of its word.
type bound struct {
	Word string
	Ms   int64
}

// bulkChoice is a mass change that the search offers.
type bulkChoice struct{ Verb, Grant string }

// bulkChoices are the mass changes of tasks in a state, or in any.
func bulkChoices(v *visit, state *task.State) []bulkChoice {
	var offered []bulkChoice
	for _, b := range bulkVerbs() {
		if from, _ := b.verb.From(); (state == nil || from == *state) && v.May(b.grant) {
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
	out := &search{Text: queryText(v.r.URL.Query()), NoneSoFar: v.r.FormValue("none") != ""}
	err := out.read(ctx, v, strings.TrimSpace(v.r.FormValue("cursor")))
	if v.r.FormValue("part") == partCount && err == nil {
		out.count(ctx, v)
	}
	if v.r.FormValue("part") == "" {
		out.offer(ctx, v, err == nil)
	}
	return out, err
}

// read finds the tasks after a place in the list.
func (s *search) read(ctx context.Context, v *visit, cursor string) (err error) {
	if s.Query, err = v.query(ctx, s.Text); err != nil {
		return err
	}
	s.Text = s.Query.String()
	filter, err := s.Query.filter(v.now)
	if err != nil {
		return err
	}
	filter.After = cursor
	for _, at := range []struct {
		word string
		time.Time
	}{{"dueafter", filter.DueAfter}, {"duebefore", filter.DueBefore}, {"runafter", filter.RunAfter}, {"runbefore", filter.RunBefore}} {
		if !at.IsZero() {
			s.Bounds = append(s.Bounds, bound{at.word, at.UnixMilli()})
		}
	}
	if s.Query.has("id") || !filter.Walks() {
		s.Renewed = v.Link("tasks", "q", s.Query, "cursor", cursor, "part", "live")
	}
	if s.Query.has("id") {
		return s.byID(ctx, v)
	}
	if filter.Owner == "" {
		done, err := v.site.oneAtATime(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	state := filter.State
	if s.Walks = filter.Walks(); s.Walks && state == nil { // without an owner or a label there is no list of all states
		state = new(task.Pending)
	}
	if state != nil {
		s.State = state.String()
	}
	if s.Page, err = v.c.ListBounded(ctx, filter); err != nil {
		return err
	}
	if next := s.Page.Next; next != "" {
		s.Next = v.Link("tasks", "q", s.Query, "cursor", next)
		s.GoesOn = v.Link("tasks", "q", s.Query, "cursor", next, "part", "live", "none", "1")
	}
	if cursor != "" {
		s.First = v.Link("tasks", "q", s.Query)
	}
	if !s.Query.has(byRun) {
		s.Verbs = bulkChoices(v, state)
	}
	if len(s.Verbs) > 0 && s.State != "" && s.Next+s.First != "" {
		s.Count = v.Link("tasks", "q", s.Query, "part", partCount)
	}
	return nil
}

// partCount is the number of tasks that match, for all viewers together and in a bounded time.
const partCount = "count"

func (s *search) count(ctx context.Context, v *visit) {
	filter, err := s.Query.filter(v.now)
	o := task.Operation{Verb: task.VerbCancel, Filter: bulkFilter(filter)}
	if s.State == task.Dead.String() {
		o.Verb = task.VerbDiscard
	}
	if err == nil && s.Count != "" {
		s.counted = readFor(ctx, v, partCount+" "+s.State+" "+s.Text, func(ctx context.Context) (int64, error) {
			ctx, cancel := context.WithTimeout(ctx, countPatience)
			defer cancel()
			preview, err := previewOne(ctx, v, o)
			return preview.Matched, err
		}).value
	}
}

// offer fills in what can be said next. Kinds are those of the processes and of the tasks in the list.
func (s *search) offer(ctx context.Context, v *visit, found bool) {
	kinds := map[string]bool{}
	for _, t := range s.Page.Tasks {
		kinds[t.Kind] = true
	}
	if found {
		if alive, err := v.c.Processes(ctx); err == nil { // without them less is offered
			for _, p := range alive {
				for _, kind := range p.Kinds {
					kinds[kind] = true
				}
			}
		}
	}
	names := slices.Sorted(maps.Keys(kinds))
	queues, _ := v.c.QueueNames(ctx) // without them less is offered
	values := map[string][]string{"kind": names, "-kind": names, "queue": queues, "state": stateNames()}
	for _, key := range queryKeys() {
		if s.Query.has(key) && !repeats(key) {
			continue
		}
		if len(values[key]) == 0 {
			s.Offers = append(s.Offers, key+":")
		}
		for _, value := range values[key] {
			s.Offers = append(s.Offers, clause{key, value}.String())
		}
	}
	if !s.Query.has(keyLate) {
		s.Offers = append(s.Offers, keyLate)
	}
}

// byID finds one task.
func (s *search) byID(ctx context.Context, v *visit) error {
	id, err := task.ParseID(s.Query.Value("id"))
	if err != nil {
		return err
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
