package consoleweb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// The verbs of mass changes as forms name them.
const (
	bulkShift   = string(task.VerbShift)
	bulkCancel  = string(task.VerbCancel)
	bulkRequeue = string(task.VerbRequeue)
	bulkRetry   = string(task.VerbRetry)
	bulkDiscard = string(task.VerbDiscard)
)

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

func bulkChange(verb task.Verb) change {
	a := change{ask: func(ctx context.Context, v *visit) (question, error) { return askBulk(ctx, v, verb) }, do: doBulk(verb)}
	for _, b := range bulkVerbs() {
		if b.verb == verb {
			a.verb = b.grant
		}
	}
	return a
}

// bulkOf reads an operation from the form.
func bulkOf(v *visit, verb task.Verb) (task.Operation, error) {
	o := task.Operation{Verb: verb}
	var err error
	form := formOf(v.r.Form)
	if o.Filter, err = form.bulkFilter(v.now); err != nil {
		return o, err
	}
	if from, _ := verb.From(); form.State != "" && form.State != from.String() {
		return o, &task.FieldError{Field: "state", Problem: fmt.Sprintf("must be %s for %s", from, verb)}
	}
	switch verb {
	case task.VerbShift:
		if o.By, err = parseTypedSpan(v.r.FormValue("by")); err != nil {
			return o, err
		}
		o.Recurrences = v.r.FormValue("recurrences") != ""
	case task.VerbRequeue:
		o.To = v.r.FormValue("to")
		if err := v.c.CheckQueue(o.To); err != nil {
			return o, fmt.Errorf("%w: %w", errMistake, err)
		}
	}
	if o.Rate, err = rateOf(v); err != nil {
		return o, err
	}
	return o, o.Check()
}

func rateOf(v *visit) (rate int, err error) {
	if text := v.r.FormValue("rate"); text != "" {
		if rate, err = strconv.Atoi(text); err != nil {
			return 0, &task.FieldError{Field: "rate", Problem: "must be a whole number of tasks a second"}
		}
	}
	return rate, nil
}

// askBulk asks for what the verb needs, then shows a preview.
func askBulk(ctx context.Context, v *visit, verb task.Verb) (question, error) {
	if err := v.r.ParseForm(); err != nil {
		return question{}, fmt.Errorf("%w: %w", errMistake, err)
	}
	back := v.Link("tasks", formOf(v.r.Form).pairs()...)
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
	o, err := bulkOf(v, verb)
	if err != nil {
		return question{}, err
	}
	return askPreviewed(ctx, v, o, back)
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
	// A bound such as +2h would be another moment when the form comes back.
	if at := o.Filter.DueAfter; !at.IsZero() {
		q.Hidden["after"] = []string{v.Typed(at.UnixMilli())}
	}
	if at := o.Filter.DueBefore; !at.IsZero() {
		q.Hidden["before"] = []string{v.Typed(at.UnixMilli())}
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
		if err := v.r.ParseForm(); err != nil {
			return answer{}, fmt.Errorf("%w: %w", errMistake, err)
		}
		o, err := bulkOf(v, verb)
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
