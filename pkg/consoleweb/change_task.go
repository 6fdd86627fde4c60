package consoleweb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/task"
)

// shownVersion is the version of the task that the page showed; 0 if it does not say.
func shownVersion(v *visit) int64 {
	n, err := strconv.ParseInt(v.r.FormValue("version"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// target reads the task that a change is about, in whichever version: the change itself compares it with the one that was shown.
func target(ctx context.Context, v *visit) (console.Task, error) {
	id, err := idOf(v)
	if err != nil {
		return console.Task{}, err
	}
	rows, err := v.c.Rows(ctx, []task.ID{id})
	if err != nil {
		return console.Task{}, err
	}
	if len(rows) == 0 {
		return console.Task{}, task.ErrNotFound
	}
	return console.TaskOf(rows[0]), nil
}

func taskBack(v *visit, id task.ID) string { return v.Link("task", "id", id) }

// taskQuestion asks about one task. The version travels with the form, so that an answer is about what was shown.
func taskQuestion(v *visit, t console.Task, title string) question {
	q := question{Title: title, Sample: []console.Task{t}, Back: taskBack(v, t.ID), Hidden: map[string][]string{}}
	if v.r.FormValue("version") == "" {
		q.Hidden["version"] = []string{strconv.FormatInt(t.Version, 10)}
	}
	return q
}

func askTask(key string, grave bool) func(ctx context.Context, v *visit) (question, error) {
	return func(ctx context.Context, v *visit) (question, error) {
		t, err := target(ctx, v)
		if err != nil {
			return question{}, err
		}
		q := taskQuestion(v, t, v.T(key))
		q.Grave = grave
		return q, nil
	}
}

// askMove asks for a moment, unless the request names one.
func askMove(ctx context.Context, v *visit) (question, error) {
	t, err := target(ctx, v)
	if err != nil {
		return question{}, err
	}
	q := taskQuestion(v, t, v.T("ask.move"))
	at := v.r.FormValue("at")
	if at == "" {
		q.Inputs, q.Preview = []input{{"at", v.T("due"), v.At(t.DueAtMs).Text, v.T("hint.time")}}, true
		return q, nil
	}
	to, err := parseTyped(at, v.now)
	if err != nil {
		return question{}, err
	}
	q.Hidden["at"] = []string{v.Typed(to.UnixMilli())} // the moment that was shown: +2h is another one later
	q.Title = v.T("ask.moveto", v.At(to.UnixMilli()).Text, v.Zone())
	q.Facts = []string{v.T("fact.from", v.At(t.DueAtMs).Text)}
	if to.Before(v.now) {
		q.Facts = append(q.Facts, v.T("fact.past"))
	}
	return q, nil
}

func doMove(ctx context.Context, v *visit) (answer, error) {
	t, err := target(ctx, v)
	if err != nil {
		return answer{}, err
	}
	to, err := parseTyped(v.r.FormValue("at"), v.now)
	if err != nil {
		return answer{}, err
	}
	changed, err := v.c.Reschedule(ctx, t.ID, shownVersion(v), task.At(to))
	if err != nil {
		return answer{}, err
	}
	return answer{
		Text:  v.T("did.move", v.At(t.DueAtMs).Text, v.At(changed.DueAtMs).Text),
		Notes: []string{v.T("did.version", changed.Version)}, Back: taskBack(v, t.ID),
	}, nil
}

// taskChange cancels, retries or discards a task, in the version that the page showed.
func taskChange(
	verb string, grave bool, do func(c *console.Console, ctx context.Context, id task.ID, version int64) (console.Task, error),
) change {
	return change{verb, askTask("ask."+verb, grave), func(ctx context.Context, v *visit) (answer, error) {
		id, err := idOf(v)
		if err != nil {
			return answer{}, err
		}
		changed, err := do(v.c, ctx, id, shownVersion(v))
		if err != nil {
			return answer{}, err
		}
		var due []any // in the text
		if verb == VerbCancel {
			due = append(due, v.At(changed.DueAtMs).Text)
		}
		return answer{Text: v.T("did."+verb, due...), Back: taskBack(v, id)}, nil
	}}
}

// askRecurrence asks about a recurrence.
func askRecurrence(key string, grave bool) func(ctx context.Context, v *visit) (question, error) {
	return func(ctx context.Context, v *visit) (question, error) {
		life, err := v.c.Recurrence(ctx, v.r.FormValue("owner"), v.r.FormValue("name"))
		if err != nil {
			return question{}, err
		}
		q := question{
			Title: v.T(key), Grave: grave, Back: v.Link("owner", "owner", life.Owner),
			Facts: []string{
				v.T("fact.recurrence", cleaned(life.Name), cleaned(life.Owner)), v.T("fact.timetable", life.Timetable),
				v.T("fact.kind", life.Kind, life.Queue),
			},
		}
		switch key {
		case "ask.rec.pause":
			q.Inputs = []input{{"note", v.T("note"), "", v.T("hint.note")}}
		case "ask.rec.run":
			q.Hidden = map[string][]string{formID: {task.NewID().String()}}
		}
		return q, nil
	}
}

func doPauseRecurrence(ctx context.Context, v *visit) (answer, error) {
	owner := v.r.FormValue("owner")
	if _, err := v.c.PauseRecurrence(ctx, owner, v.r.FormValue("name"), v.r.FormValue("note")); err != nil {
		return answer{}, err
	}
	return answer{Text: v.T("did.rec.pause"), Back: v.Link("owner", "owner", owner)}, nil
}

// recurrenceChange resumes or stops a recurrence.
func recurrenceChange(
	name string, grave bool, do func(c *console.Console, ctx context.Context, owner, name string) (console.Recurrence, error),
) change {
	return change{VerbRecurrence, askRecurrence("ask.rec."+name, grave), func(ctx context.Context, v *visit) (answer, error) {
		owner := v.r.FormValue("owner")
		if _, err := do(v.c, ctx, owner, v.r.FormValue("name")); err != nil {
			return answer{}, err
		}
		return answer{Text: v.T("did.rec." + name), Back: v.Link("owner", "owner", owner)}, nil
	}}
}

func doRunRecurrence(ctx context.Context, v *visit) (answer, error) {
	id, err := onceOf(v)
	if err != nil {
		return answer{}, err
	}
	made, err := v.c.RunRecurrenceOnce(ctx, v.r.FormValue("owner"), v.r.FormValue("name"), id)
	if err != nil {
		return answer{}, err
	}
	return answer{Text: v.T("did.rec.run", v.At(made.DueAtMs).Text), Back: taskBack(v, made.ID)}, nil
}

// checkQueue refuses a queue that is none of the deployment's.
func checkQueue(ctx context.Context, v *visit, queue string) error {
	err := v.c.CheckQueue(ctx, queue)
	if _, wrong := errors.AsType[*task.FieldError](err); wrong {
		err = fmt.Errorf("%w: %w", errMistake, err)
	}
	return err
}

// askLimit asks for a queue's rate and concurrency. It shows what an operator has set: of a configured limit, the word default, so that
// a form that changes the other limit leaves it to the configuration.
func askLimit(ctx context.Context, v *visit) (question, error) {
	queue := v.r.FormValue("queue")
	if err := checkQueue(ctx, v, queue); err != nil {
		return question{}, err
	}
	all, err := v.c.Queues(ctx)
	if err != nil {
		return question{}, err
	}
	rate, ownerRate, concurrency := asConfigured, asConfigured, asConfigured
	bound := limitOf(all, queue)
	if bound.RateSet {
		rate = bound.Rate.String()
	}
	if bound.OwnerRateSet {
		ownerRate = bound.OwnerRate.String()
	}
	if bound.ConcurrencySet {
		concurrency = ""
		if bound.Concurrency > 0 {
			concurrency = strconv.Itoa(bound.Concurrency)
		}
	}
	return question{
		Title: v.T("ask.limit", cleaned(queue)), Facts: []string{v.T("fact.limit"), v.T("fact.workers")}, Back: "system",
		Inputs: []input{
			{"rate", v.T("rate"), rate, v.T("hint.rate")},
			{"owner_rate", v.T("rate.owners"), ownerRate, v.T("hint.rate")},
			{"concurrency", v.T("concurrency"), concurrency, v.T("hint.concurrency")},
		},
		Hidden: url.Values{shownPrefix + "rate": {rate}, shownPrefix + "owner_rate": {ownerRate}, shownPrefix + "concurrency": {concurrency}},
	}, nil
}

const (
	asConfigured = "default" // in a field of a limit
	shownPrefix  = "shown_"  // begins the name of a field that holds what its input showed
)

// isAsShown reports whether a field holds what the form showed in it, or was not sent: another operator may have changed the limit since.
func isAsShown(v *visit, field string) bool {
	now := v.r.FormValue(field) // parses the form
	shown, has := v.r.Form[shownPrefix+field]
	return !v.r.Form.Has(field) || has && shown[0] == now
}

// doLimit sets what the form has changed, all of it or nothing: a number, nothing for no bound, or the word default for what is
// configured.
func doLimit(ctx context.Context, v *visit) (answer, error) {
	queue := v.r.FormValue("queue")
	if err := checkQueue(ctx, v, queue); err != nil {
		return answer{}, err
	}
	var limits []console.LimitChange
	for _, f := range []struct {
		name  string
		limit func(*task.Rate) console.LimitChange
	}{{"rate", console.LimitRate}, {"owner_rate", console.LimitOwnerRate}} {
		if isAsShown(v, f.name) {
			continue
		}
		rate, err := askedRate(v, f.name)
		if err != nil {
			return answer{}, err
		}
		limits = append(limits, f.limit(rate))
	}
	if !isAsShown(v, "concurrency") {
		count := new(int)
		switch text := v.r.FormValue("concurrency"); text {
		case "":
		case asConfigured:
			count = nil
		default:
			var err error
			if *count, err = strconv.Atoi(text); err != nil {
				return answer{}, &task.FieldError{Field: "concurrency", Problem: "must be a whole number"}
			}
		}
		limits = append(limits, console.LimitConcurrency(count))
	}
	if err := v.c.SetLimits(ctx, queue, limits...); err != nil {
		return answer{}, err
	}
	return answer{Text: v.T("did.limit", cleaned(queue)), Back: "system"}, nil
}

// askedRate is a rate that a form asks for; nil: as configured.
func askedRate(v *visit, field string) (*task.Rate, error) {
	switch text := v.r.FormValue(field); text {
	case "":
		return new(task.Rate), nil
	case asConfigured:
		return nil, nil //nolint:nilnil // nil is a value here.
	default:
		rate, err := task.ParseRate(text)
		return &rate, err
	}
}

func askResign(ctx context.Context, v *visit) (question, error) {
	name := v.r.FormValue("name")
	if err := console.CheckLeader(name); err != nil {
		return question{}, fmt.Errorf("%w: %w", errMistake, err)
	}
	term, err := v.c.Term(ctx, name)
	if err != nil {
		return question{}, err
	}
	return question{
		Title: v.T("ask.resign", name), Facts: []string{v.T("fact.resign")}, Back: "system",
		Hidden: map[string][]string{"term": {strconv.FormatInt(term, 10)}},
	}, nil
}

// doResign ends the term that the page showed: the form may come once more when another one has begun.
func doResign(ctx context.Context, v *visit) (answer, error) {
	name, term := v.r.FormValue("name"), int64(0)
	if err := console.CheckLeader(name); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errMistake, err)
	}
	if text := v.r.FormValue("term"); text != "" {
		var err error
		if term, err = strconv.ParseInt(text, 10, 64); err != nil {
			return answer{}, fmt.Errorf("%w as a term: %q", errMistake, text)
		}
	}
	done, err := v.c.Resign(ctx, name, term)
	if err != nil {
		return answer{}, err
	}
	return answer{
		Text: v.T("did.resign", done.Before, done.Epoch, v.Span(done.Took.Milliseconds())), Back: "system",
	}, nil
}
