package consoleweb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// bulkByQuery is the change that a form with a query names. A console of the version before, which would read no filter in the form
// and change all tasks, does not know it.
const bulkByQuery = "query"

// bulkPicked is that of a form with the ids of chosen tasks, which such a console would not read.
const bulkPicked = "picked"

// bulkVerb is a verb of an operation, and the verb of the Grant that it needs.
type bulkVerb struct {
	verb  task.Verb
	grant string
}

func bulkVerbs() []bulkVerb {
	return []bulkVerb{
		{task.VerbShift, VerbMove},
		{task.VerbCancel, VerbCancel},
		{task.VerbRequeue, VerbRequeue},
		{task.VerbRetry, VerbRetry},
		{task.VerbDiscard, VerbDiscard},
	}
}

func (b bulkVerb) change() change {
	return change{b.grant, func(ctx context.Context, v *visit) (question, error) { return askBulk(ctx, v, b.verb) }, doBulk(b.verb)}
}

// bulkOf reads an operation from the form: for the tasks that a query chooses.
func bulkOf(ctx context.Context, v *visit, verb task.Verb, asked query) (task.Operation, error) {
	o := task.Operation{Verb: verb}
	filter, err := asked.filter(v.now)
	if err != nil {
		return o, err
	}
	if from, _ := verb.From(); filter.State != nil && *filter.State != from {
		return o, &task.FieldError{Field: "state", Problem: fmt.Sprintf("must be %s for %s", from, verb)}
	}
	if asked.has("id") || asked.has(byRun) {
		return o, &task.FieldError{Field: "q", Problem: "must have neither id: nor run: for a mass change"}
	}
	o.Filter = bulkFilter(filter)
	if ids, err := pickedOf(v); err != nil {
		return o, err
	} else if len(ids) > 0 {
		o.Filter = task.Filter{IDs: ids}
	}
	switch verb {
	case task.VerbShift:
		if o.By, err = parseTypedSpan(v.r.FormValue("by")); err != nil {
			return o, err
		}
		o.Recurrences = v.r.FormValue("recurrences") != ""
	case task.VerbRequeue:
		o.To = v.r.FormValue("to")
		if err := checkQueue(ctx, v, o.To); err != nil {
			return o, err
		}
	}
	if o.Rate, err = rateOf(v); err != nil {
		return o, err
	}
	return o, o.Check()
}

// pickedOf are the tasks that were chosen in the list; none: the change is of all that the query chooses.
func pickedOf(v *visit) (ids []task.ID, err error) {
	for _, text := range v.r.Form["pick"] {
		id, err := task.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errMistake, err)
		}
		ids = append(ids, id)
	}
	if v.r.FormValue("do") == bulkPicked && len(ids) == 0 {
		return nil, errNothing
	}
	return ids, nil
}

func rateOf(v *visit) (rate int, err error) {
	if text := v.r.FormValue("rate"); text != "" {
		if rate, err = strconv.Atoi(text); err != nil {
			return 0, &task.FieldError{Field: "rate", Problem: "must be a whole number of tasks a second"}
		}
	}
	return rate, nil
}

// askedOf is the query of a mass change's form.
func askedOf(ctx context.Context, v *visit) (query, error) {
	if err := v.r.ParseForm(); err != nil {
		return nil, fmt.Errorf("%w: %w", errMistake, err)
	}
	return v.query(ctx, queryText(v.r.Form))
}

// askBulk asks for what the verb needs, then shows a preview.
func askBulk(ctx context.Context, v *visit, verb task.Verb) (question, error) {
	asked, err := askedOf(ctx, v)
	if err != nil {
		return question{}, err
	}
	back := v.Link("tasks", "q", asked)
	missing := input{"by", v.T("by"), "", v.T("hint.by")}
	if verb == task.VerbRequeue {
		missing = input{"to", v.T("toqueue"), "", v.T("hint.queue")}
	}
	if (verb == task.VerbShift || verb == task.VerbRequeue) && v.r.FormValue(missing.Name) == "" {
		q := question{Title: v.T("ask.bulk." + string(verb)), Back: back, Inputs: []input{missing}, Preview: true}
		if verb == task.VerbShift {
			q.Boxes = []input{{"recurrences", v.T("recurrencestoo"), "1", v.T("hint.recurrences")}}
		}
		return q, nil
	}
	o, err := bulkOf(ctx, v, verb, asked)
	if err != nil {
		return question{}, err
	}
	q, err := askPreviewed(ctx, v, o, back)
	if err != nil {
		return question{}, err
	}
	do := bulkByQuery
	if len(o.Filter.IDs) > 0 {
		do = bulkPicked
	}
	q.Hidden["do"], q.Hidden["verb"], q.Hidden["q"] = []string{do}, []string{string(verb)}, []string{asked.fixed(v, o.Filter).String()}
	for _, name := range earlierNames() {
		q.Hidden[name] = nil // the query has it
	}
	return q, nil
}

// askPreviewed asks whether an operation is to be made, and shows what it would change.
func askPreviewed(ctx context.Context, v *visit, o task.Operation, back string) (question, error) {
	preview, err := previewOne(ctx, v, o)
	if err != nil {
		return question{}, err
	}
	matched := strconv.FormatInt(preview.Matched, 10)
	q := question{
		Title: v.T("ask.bulk.count", grouped(matched), v.Detail(o.String())),
		Facts: []string{v.T("fact.bulk")}, Sample: preview.Sample, By: o.By, Back: back,
		Hidden: map[string][]string{"matched": {matched}, formID: {task.NewID().String()}},
		Inputs: []input{{"rate", v.T("bulkrate"), "", v.T("hint.bulkrate")}},
		Empty:  preview.Matched == 0, Grave: o.Verb == task.VerbCancel || o.Verb == task.VerbDiscard || o.Filter.All && o.Undoes.IsZero(),
	}
	switch {
	case !o.Undoes.IsZero():
		q.Facts = append(q.Facts, v.T("fact.undo"))
	case o.LeavesRecurrences():
		q.Facts = append(q.Facts, v.T("fact.ticks"))
	}
	if o.Verb == task.VerbRetry {
		q.Facts = append(q.Facts, v.T("fact.retry"))
	}
	if n := len(preview.Sample); n > 0 {
		q.Facts = append(q.Facts, v.T("fact.sample", n))
	}
	return q, nil
}

// askUndo shows what would be moved back of what a shift has moved.
func askUndo(ctx context.Context, v *visit) (question, error) {
	o, err := undoOf(ctx, v)
	if err != nil {
		return question{}, err
	}
	return askPreviewed(ctx, v, o, v.Link("operation", "id", o.Undoes))
}

func undoOf(ctx context.Context, v *visit) (task.Operation, error) {
	id, err := idOf(v)
	if err != nil {
		return task.Operation{}, err
	}
	return v.c.UndoOf(ctx, id)
}

func doUndo(ctx context.Context, v *visit) (answer, error) {
	o, err := undoOf(ctx, v)
	if err != nil {
		return answer{}, err
	}
	if o.Rate, err = rateOf(v); err != nil {
		return answer{}, err
	}
	return beginPreviewed(ctx, v, o)
}

// fixed is the query with the moments that a filter has: a bound such as +2h would be another moment when the form comes back.
func (q query) fixed(v *visit, f task.Filter) query {
	out := slices.DeleteFunc(slices.Clone(q), func(c clause) bool { return c.Key == "due" || c.Key == keyLate })
	typed := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return v.Typed(at.UnixMilli())
	}
	if window := typed(f.DueAfter) + ".." + typed(f.DueBefore); window != ".." {
		out = append(out, clause{"due", window})
	}
	return out
}

// previewOne counts what an operation would change, while nobody else reads rows of all owners.
func previewOne(ctx context.Context, v *visit, o task.Operation) (console.Preview, error) {
	done, err := v.site.oneAtATime(ctx)
	if err != nil {
		return console.Preview{}, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	return v.c.PreviewBulk(ctx, o)
}

// doBulk makes the operation of which a preview was shown.
func doBulk(verb task.Verb) func(ctx context.Context, v *visit) (answer, error) {
	return func(ctx context.Context, v *visit) (answer, error) {
		asked, err := askedOf(ctx, v)
		if err != nil {
			return answer{}, err
		}
		o, err := bulkOf(ctx, v, verb, asked)
		if err != nil {
			return answer{}, err
		}
		return beginPreviewed(ctx, v, o)
	}
}

// beginPreviewed is begin for what a preview has counted.
func beginPreviewed(ctx context.Context, v *visit, o task.Operation) (answer, error) {
	var err error
	if o.Matched, err = strconv.ParseInt(v.r.FormValue("matched"), 10, 64); err != nil || o.Matched < 1 {
		return answer{}, errNothing // no preview was shown, or it was empty
	}
	return begin(ctx, v, o)
}

// begin makes an operation, and leads to its progress. The daemon carries it out. A form that comes twice makes one.
func begin(ctx context.Context, v *visit, o task.Operation) (answer, error) {
	id, err := onceOf(v)
	if err != nil {
		return answer{}, err
	}
	o.ID = id
	made, err := v.c.Bulk(ctx, o)
	if err != nil {
		return answer{}, err
	}
	return answer{Back: v.Link("operation", "id", made.ID, "made", "1"), Leads: true}, nil
}

// operationView is the data of the view.
type operationView struct {
	Operation console.OperationLife
	Came      int64 // tasks to which it has come
	Made      bool  // just now, by this user
	Live      bool  // it changes
	Over      bool
	Undoable  bool // it has moved tasks that may be moved back
}

func readOperation(ctx context.Context, v *visit) (any, error) {
	id, err := idOf(v)
	if err != nil {
		return nil, err
	}
	life, err := v.c.Operation(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	over := life.State == task.OperationDone || life.State == task.OperationCancelled
	return &operationView{
		Operation: life, Came: life.Changed + life.Ended + life.Unchanged, Made: v.r.FormValue("made") != "",
		Live: life.State == task.OperationRunning || life.State == task.OperationPaused,
		Over: over, Undoable: over && life.Verb == task.VerbShift && life.Changed > 0,
	}, nil
}

func askOperation(key string, grave bool) func(ctx context.Context, v *visit) (question, error) {
	return func(ctx context.Context, v *visit) (question, error) {
		id, err := idOf(v)
		if err != nil {
			return question{}, err
		}
		life, err := v.c.Operation(ctx, id, 0)
		if err != nil {
			return question{}, err
		}
		if life.State == task.OperationDone || life.State == task.OperationCancelled {
			return question{}, task.ErrOperationOver
		}
		return question{
			Title: v.T(key), Grave: grave, Back: v.Link("operation", "id", id),
			Facts: []string{v.Detail(life.Text), v.T("fact.left", life.Left), v.T("fact.stays", life.Changed)},
		}, nil
	}
}

// operationChange pauses, resumes or stops an operation.
func operationChange(name string, grave bool, do func(*console.Console, context.Context, task.ID) (console.Operation, error)) change {
	return change{VerbOperation, askOperation("ask.op."+name, grave), func(ctx context.Context, v *visit) (answer, error) {
		id, err := idOf(v)
		if err != nil {
			return answer{}, err
		}
		o, err := do(v.c, ctx, id)
		if err != nil {
			return answer{}, err
		}
		return answer{Text: v.T("did.op."+name, o.Changed), Back: v.Link("operation", "id", id)}, nil
	}}
}
