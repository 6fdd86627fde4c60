package consoleweb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/typed"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// change is what the page asks about before it does it.
type change struct {
	verb string // of the Grant
	// ask says what will be done, and to how many.
	ask func(ctx context.Context, v *visit) (question, error)
	// do does it, and says what was done.
	do func(ctx context.Context, v *visit) (answer, error)
}

// question is what somebody is asked.
type question struct {
	Title  string
	Facts  []string
	Sample []console.Task
	By     time.Duration // by which the sample's tasks are to move
	Inputs []input       // still to be filled in
	Boxes  []input       // to be ticked: one that is sends its value
	Hidden url.Values    // go back with the answer
	Back   string        // where a "no" leads
	// Preview means that the form asks once more, with what was filled in, before anything is done.
	Preview bool
	Empty   bool // there is nothing to do, so there is no button
	Grave   bool // it can't be taken back
}

// input is a field that a question needs.
type input struct{ Name, Label, Value, Hint string }

// answer is what was done.
type answer struct {
	Text  string
	Notes []string
	Back  string
	Leads bool // the browser goes to Back at once
}

// changes returns all changes by the names that forms send as "do".
func changes() map[string]change {
	all := map[string]change{
		"task.move":         {VerbMove, askMove, doMove},
		"task.cancel":       taskChange(VerbCancel, true, (*console.Console).Cancel),
		"task.retry":        taskChange(VerbRetry, false, (*console.Console).Retry),
		"task.discard":      taskChange(VerbDiscard, true, (*console.Console).Discard),
		"queue.pause":       {VerbQueue, askQueue("ask.pause"), doPause},
		"queue.resume":      {VerbQueue, askQueue("ask.resume"), doResume},
		"queue.limit":       {VerbQueue, askLimit, doLimit},
		"queue.add":         {VerbQueue, askAddQueue, doAddQueue},
		"queue.retire":      {VerbQueue, askRetireQueue, doRetireQueue},
		"pause.tasks":       {VerbQueue, askPauseTasks, doPauseTasks},
		"pause.end":         {VerbQueue, askEndPause, doEndPause},
		"leader.resign":     {VerbLeader, askResign, doResign},
		"operation.pause":   operationChange("pause", false, (*console.Console).PauseOperation),
		"operation.resume":  operationChange("resume", false, (*console.Console).ResumeOperation),
		"operation.stop":    operationChange("stop", true, (*console.Console).StopOperation),
		"recurrence.pause":  {VerbRecurrence, askRecurrence("ask.rec.pause", false), doPauseRecurrence},
		"recurrence.resume": recurrenceChange("resume", false, (*console.Console).ResumeRecurrence),
		"recurrence.stop":   recurrenceChange("stop", true, (*console.Console).StopRecurrence),
		"recurrence.run":    {VerbRecurrence, askRecurrence("ask.rec.run", false), doRunRecurrence},
		"owner.block":       {VerbOwner, askOwner("block"), doBlockOwner},
		"owner.unblock":     {VerbOwner, askOwner("unblock"), doUnblockOwner},
		"bulk.undo":         {VerbMove, askUndo, doUndo},
		"dead.retry":        {VerbRetry, askDead("ask.dead.retry", false), doDead(task.VerbRetry)},
		"dead.discard":      {VerbDiscard, askDead("ask.dead.discard", true), doDead(task.VerbDiscard)},
	}
	for _, b := range bulkVerbs() {
		all["bulk."+string(b.verb)] = b.change()
	}
	return all
}

// formID is the name of the field by which a form's answer is known: a browser may send it twice. A question that makes something
// gives it a new id each time that it is asked.
const formID = "once"

// onceOf is the id of the form, or a new one for a program that sends none: it repeats nothing.
func onceOf(v *visit) (task.ID, error) {
	text := v.r.FormValue(formID)
	if text == "" {
		return task.NewID(), nil
	}
	id, err := task.ParseID(text)
	if err != nil || id.IsZero() {
		return id, fmt.Errorf("%w as the id of a form: %q", errMistake, text)
	}
	return id, nil
}

// find returns the change that the request names, if its user may do it. The verb of a mass change may come in a field of its
// own.
func (s *site) find(v *visit) (change, error) {
	name := v.r.FormValue("do")
	if name == "bulk" || name == bulkByQuery || name == bulkPicked {
		name = "bulk." + v.r.FormValue("verb")
	}
	a, found := changes()[name]
	switch {
	case !found:
		return a, errNoPage
	case !v.May(a.verb):
		return a, errForbidden
	}
	return a, nil
}

// withChange runs fn on the change that the request names, and shows its error.
func (s *site) withChange(w http.ResponseWriter, v *visit, fn func(ctx context.Context, a change) error) {
	a, err := s.find(v)
	if err == nil {
		ctx, cancel := context.WithTimeout(v.r.Context(), changeTimeout)
		defer cancel()
		err = fn(ctx, a)
	}
	if err != nil {
		s.refuse(w, v, err)
	}
}

func (s *site) askChange(w http.ResponseWriter, v *visit) {
	s.withChange(w, v, func(ctx context.Context, a change) error {
		var q question
		err := s.watch(ctx, func(ctx context.Context) (err error) {
			q, err = a.ask(ctx, v)
			return err
		})
		if err != nil {
			return err
		}
		q.Hidden = withoutInputs(v.r.URL.Query(), q)
		s.render(w, http.StatusOK, "change", fragment(v.r), view{visit: v, Name: "change", Data: q})
		return nil
	})
}

// withoutInputs is what the form sends back beside its fields: the request's own values, and those that the question has added.
func withoutInputs(asked url.Values, q question) url.Values {
	for name, values := range q.Hidden {
		asked[name] = values
	}
	for _, in := range slices.Concat(q.Inputs, q.Boxes) {
		asked.Del(in.Name)
	}
	asked.Del("part")
	return asked
}

func (s *site) doChange(w http.ResponseWriter, v *visit) {
	s.withChange(w, v, func(ctx context.Context, a change) error {
		did, err := a.do(ctx, v)
		s.readings.forget() // a change that failed may have changed something
		switch {
		case err != nil:
			return err
		case did.Leads && v.r.Header.Get("HX-Request") != "":
			w.Header().Set("HX-Redirect", did.Back)
			w.WriteHeader(http.StatusNoContent)
		case did.Leads:
			lead(w, did.Back)
		default:
			s.render(w, http.StatusOK, "done", fragment(v.r), view{visit: v, Name: "done", Data: did})
		}
		return nil
	})
}

// conflictKey names the message for an error that says that the thing is no longer as the page showed it.
func conflictKey(err error) (string, bool) {
	for _, c := range []struct {
		err error
		key string
	}{
		{console.ErrMeanwhile, "err.meanwhile"},
		{task.ErrAlreadyDone, "err.done"},
		{task.ErrAlreadyCancelled, "err.cancelled"},
		{task.ErrAlreadyDead, "err.dead"},
		{task.ErrFinished, "err.finished"},
		{task.ErrNotDead, "err.notdead"},
		{task.ErrKeyTaken, "err.keytaken"},
		{task.ErrRunning, "err.running"},
		{task.ErrOwnerBlocked, "err.blocked"},
		{task.ErrOperationOver, "err.over"},
		{task.ErrOperationTaken, "err.formused"},
		{console.ErrNeverLed, "err.neverled"},
		{errNothing, "err.nothing"},
	} {
		if errors.Is(err, c.err) {
			return c.key, true
		}
	}
	return "", false
}

// errNothing answers a change that found nothing to change.
var errNothing = errors.New("nothing was to be changed")

// Explain says in the user's words why there is no answer.
func (v *visit) Explain(err error) string {
	if key, ok := conflictKey(err); ok {
		return v.T(key)
	}
	if wrong, ok := errors.AsType[*clauseError](err); ok {
		return v.T("err.clause", cleaned(wrong.clause), v.Explain(wrong.err))
	}
	if wrong, ok := errors.AsType[*task.FieldError](err); ok {
		return v.T("err.field", wrong.Error())
	}
	for _, c := range []struct {
		err error
		key string
	}{
		{schedule.ErrCommitUnknown, "err.commit"},
		{errNotSignedIn, "err.signin"},
		{errManySignIns, "err.signins"},
		{errForbidden, "err.forbidden"},
		{errOtherHost, "err.host"},
		{errNoPage, "err.nopage"},
		{task.ErrNotFound, "err.notfound"},
		{task.ErrNoOperation, "err.nooperation"},
		{task.ErrNoRecurrence, "err.norecurrence"},
		{task.ErrNoGroup, "err.nogroup"},
		{errNoClause, "err.noclause"},
		{errBeside, "err.beside"},
		{typed.ErrGap, "err.gap"},
		{typed.ErrTime, "err.time"},
		{typed.ErrEarly, "err.time"},
		{typed.ErrSpan, "err.span"},
		{errAway, "err.away"},
		{context.DeadlineExceeded, "err.slow"},
	} {
		if errors.Is(err, c.err) {
			return v.T(c.key)
		}
	}
	if errors.Is(err, errMistake) {
		return v.T("err.mistake", cleaned(err.Error()))
	}
	return v.T("err.other", cleaned(err.Error()))
}
