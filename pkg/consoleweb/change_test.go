package consoleweb_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// hidden returns the values that a question's form sends back.
func hidden(t *testing.T, page string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, e := range elements(t, page) {
		if e.name == "input" && e.attrs["name"] != "" && e.attrs["name"] != "back" && e.attrs["name"] != "pick" && e.attrs["id"] != "jump" {
			form.Set(e.attrs["name"], e.attrs["value"])
		}
	}
	return form
}

// confirm asks, and sends the question's form back as a browser without scripts does.
func (p *pages) confirm(status int, at string, pairs ...string) string {
	p.t.Helper()
	form := hidden(p.t, p.get(200, at))
	var sent []string
	for name := range form {
		sent = append(sent, name, form.Get(name))
	}
	return p.post(status, "change", append(sent, pairs...)...)
}

// A task is moved, cancelled, retried and discarded by forms alone, and the history says who did it.
func TestPageChangesATask(t *testing.T) {
	t.Parallel()
	p := open(t)
	dead := p.dead(2)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	id := "&id=" + made.ID.String()

	asked := p.get(200, "change?do=task.move"+id)
	if !strings.Contains(asked, `name="at"`) || !strings.Contains(asked, `method="get"`) {
		t.Errorf("a move without a time asks for one first: %s", asked)
	}
	later := hidden(t, p.get(200, "change?do=task.move&at=%2B2h"+id)).Get("at")
	if _, err := time.Parse(time.RFC3339Nano, later); err != nil {
		t.Errorf("the form sends %q, not the moment that it shows", later)
	}
	said := p.confirm(200, "change?do=task.move&at=2031-07-01T12:00:00Z"+id)
	if !strings.Contains(said, "2031-07-01 12:00:00") || !strings.Contains(said, "was moved from") {
		t.Errorf("after the move it says %s", said)
	}
	if life := p.task(made.ID); life.DueAtMs != time.Date(2031, 7, 1, 12, 0, 0, 0, time.UTC).UnixMilli() || life.Version != 2 {
		t.Errorf("moved: %+v", life)
	}
	p.confirm(200, "change?do=task.cancel"+id)
	if life := p.task(made.ID); life.State != task.Cancelled || life.History[len(life.History)-1].Actor != "ann@desk" {
		t.Errorf("cancelled: %+v", life)
	}
	p.confirm(200, "change?do=task.retry&id="+dead[0].String())
	p.confirm(200, "change?do=task.discard&id="+dead[1].String())
	if one, two := p.task(dead[0]), p.task(dead[1]); one.State != task.Pending || two.State != task.Cancelled {
		t.Errorf("retried: %+v, discarded: %+v", one, two)
	}
}

// What can't be done any more is told in words, and changes nothing.
func TestPageTellsConflicts(t *testing.T) {
	t.Parallel()
	p := open(t)
	dead := p.dead(1)[0]
	waits := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	cancelled := p.schedule(charge.New("ada", Charge{2}, task.In(time.Hour)))
	_, err := p.p.Cancel(t.Context(), cancelled.ID)
	pipelinetest.Must(t, err)
	done := p.schedule(charge.New("ada", Charge{3}, task.In(time.Hour)))
	const finish = "UPDATE duetime_tasks SET state = 1, version = 2, finished_at = updated_at WHERE id = ?"
	p.exec(finish, done.ID[:])
	for _, c := range []struct {
		do     string
		id     task.ID
		status int
		says   string
	}{
		{"task.cancel", cancelled.ID, 409, "was cancelled before"},
		{"task.move", cancelled.ID, 409, "was cancelled before"},
		{"task.cancel", done.ID, 409, "is done already"},
		{"task.move", done.ID, 409, "is done already"},
		{"task.move", dead, 409, "is dead"},
		{"task.retry", waits.ID, 409, "is pending, not dead"},
		{"task.discard", waits.ID, 409, "is pending, not dead"},
		{"task.discard", done.ID, 409, "is done already"},
		{"task.cancel", task.NewID(), 404, "no such task"},
		{"task.retry", task.NewID(), 404, "no such task"},
	} {
		before := ""
		if c.status == 409 {
			before = strconv.FormatInt(p.task(c.id).Version, 10)
		}
		if said := p.post(c.status, "change", "do", c.do, "id", c.id.String(), "at", "+2h"); !strings.Contains(said, c.says) {
			t.Errorf("%s says %s, want %q", c.do, said, c.says)
		}
		if c.status == 409 && strconv.FormatInt(p.task(c.id).Version, 10) != before {
			t.Errorf("%s of %s has changed it", c.do, c.says)
		}
	}
}

// A task that somebody has moved since the page showed it is left as it is.
func TestPageTellsThatATaskMovedMeanwhile(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, do := range []string{"task.move", "task.cancel"} {
		made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
		form := hidden(t, p.get(200, "change?do="+do+"&at=%2B3h&id="+made.ID.String()))
		if form.Get("version") != "1" {
			t.Fatalf("the form does not say what it has shown: %v", form)
		}
		_, err := p.p.Shift(t.Context(), made.ID, time.Hour)
		pipelinetest.Must(t, err)
		moved := p.task(made.ID)
		w := p.do(request(http.MethodPost, "change", form))
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Somebody changed the task meanwhile") {
			t.Errorf("%s: status %d: %s", do, w.Code, w.Body)
		}
		if life := p.task(made.ID); life.Version != moved.Version || life.DueAtMs != moved.DueAtMs || life.State != task.Pending {
			t.Errorf("%s has changed it: %+v", do, life)
		}
	}
}

// What dies once more after it was shown is not retried or discarded unseen.
func TestPageTellsThatATaskDiedMeanwhile(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i, id := range p.dead(2) {
		do := []string{"task.retry", "task.discard"}[i]
		form := hidden(t, p.get(200, "change?do="+do+"&id="+id.String()))
		p.exec("UPDATE duetime_tasks SET version = 4, last_error = 'another' WHERE id = ?", id[:])
		w := p.do(request(http.MethodPost, "change", form))
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Somebody changed the task meanwhile") {
			t.Errorf("%s: status %d: %s", do, w.Code, w.Body)
		}
		if life := p.task(id); life.Version != 4 || life.State != task.Dead {
			t.Errorf("%s has changed it: %+v", do, life)
		}
	}
}

// A mass change is shown beforehand, and carried out as it was shown.
func TestPageMassChange(t *testing.T) {
	t.Parallel()
	p := open(t)
	for range 3 {
		p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	}
	p.schedule(charge.New("bob", Charge{1}, task.In(time.Hour)))
	asked := p.get(200, "change?do=bulk&verb=shift&owner=ada")
	if !strings.Contains(asked, `name="by"`) || !strings.Contains(asked, `method="get"`) {
		t.Errorf("a shift asks by how much: %s", asked)
	}
	asked = p.get(200, "change?do=bulk&verb=shift&owner=ada&by=2h&before=%2B1d")
	if !strings.Contains(asked, "Change 3 tasks") || !strings.Contains(asked, "owner ada") {
		t.Errorf("the preview says %s", asked)
	}
	form := hidden(t, asked)
	_, before, _ := strings.Cut(form.Get("q"), "owner:ada due:..")
	if _, err := time.Parse(time.RFC3339Nano, before); err != nil || form.Get("matched") != "3" || form.Has("owner") || form.Has("before") {
		t.Errorf("the form sends %v", form)
	}
	form.Set("rate", "100")
	w := p.do(request(http.MethodPost, "change", form))
	to := w.Header().Get("Location")
	if w.Code != http.StatusSeeOther || !strings.HasPrefix(to, "operation?id=") {
		t.Fatalf("status %d, leads to %q: %s", w.Code, to, w.Body)
	}
	if again := p.do(request(http.MethodPost, "change", form)); again.Code != w.Code || again.Header().Get("Location") != to {
		t.Errorf("sent twice: status %d, leads to %q, want %q: %s", again.Code, again.Header().Get("Location"), to, again.Body)
	}
	page := p.get(200, to)
	if !strings.Contains(page, "was begun") || !strings.Contains(page, `max="3"`) || !strings.Contains(page, "ann@desk") {
		t.Errorf("the operation's page says %s", page)
	}
	all, err := p.p.Console().Operations(t.Context())
	pipelinetest.Must(t, err)
	if len(all) != 1 {
		t.Fatalf("made: %+v", all)
	}
	if o := all[0]; o.Filter.Owner != "ada" || o.ByMs != 2*time.Hour.Milliseconds() || o.Rate != 100 || o.Matched != 3 {
		t.Errorf("made: %+v", o)
	}
	id := "&id=" + all[0].ID.String()
	p.confirm(200, "change?do=operation.pause"+id)
	p.confirm(200, "change?do=operation.resume"+id)
	p.confirm(200, "change?do=operation.stop"+id)
	if said := p.get(409, "change?do=operation.stop"+id); !strings.Contains(said, "is over") {
		t.Errorf("stopped twice: %s", said)
	}
	if said := p.post(409, "change", "do", "operation.pause", "id", all[0].ID.String()); !strings.Contains(said, "is over") {
		t.Errorf("paused after its end: %s", said)
	}
}

// A mass change of the tasks that were chosen in the list is of these alone, through its questions; without any it is none.
func TestPageChangesChosenTasks(t *testing.T) {
	t.Parallel()
	p := open(t)
	ids := url.Values{}
	for i := range 3 {
		if id := p.schedule(charge.New("ada", Charge{i}, task.In(time.Hour))).ID; i > 0 {
			ids.Add("pick", id.String())
		}
	}
	list := p.get(200, "tasks?owner=ada&state=pending")
	p.wantHas("the list", list, `<form class="filter bulk" id="bulk"`, `<input type="checkbox" form="bulk" name="pick" value="`+ids.Get("pick"))
	asked := p.get(200, "change?do=query&q=owner:ada&verb=shift&"+ids.Encode())
	p.wantHas("a shift", asked, `name="by"`, ids["pick"][1])
	asked = p.get(200, "change?do=query&q=owner:ada&verb=shift&by=2h&"+ids.Encode())
	p.wantHas("the preview", asked, "Change 2 tasks", "2 tasks by id")
	form := hidden(t, asked)
	if form.Get("do") != "picked" || strings.Count(asked, `name="pick"`) != 2 { // a console of the version before refuses it
		t.Errorf("the form sends %s", asked)
	}
	if w := p.do(request(http.MethodPost, "change", form)); w.Code != http.StatusConflict {
		t.Errorf("without the chosen: status %d: %s", w.Code, w.Body)
	}
	form["pick"] = ids["pick"]
	if w := p.do(request(http.MethodPost, "change", form)); w.Code != http.StatusSeeOther {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	all, err := p.p.Console().Operations(t.Context())
	pipelinetest.Must(t, err)
	if len(all) != 1 || len(all[0].Filter.IDs) != 2 || all[0].Matched != 2 {
		t.Errorf("made: %+v", all)
	}
}

// A shift leaves tasks of recurrences alone and says so, unless its box was ticked.
func TestPageShiftLeavesRecurrences(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.recurs()
	asked := p.get(200, "change?do=bulk&verb=shift&owner=ada")
	box := slices.IndexFunc(elements(t, asked), func(e element) bool { return e.attrs["type"] == "checkbox" && e.attrs["name"] == "recurrences" })
	if box < 0 {
		t.Errorf("no box is offered: %s", asked)
	}
	p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	for query, matched := range map[string]string{"": "1", "&recurrences=1": "2"} {
		page := p.get(200, "change?do=bulk&verb=shift&by=2h&owner=ada"+query)
		if stay := strings.Contains(page, "stay on their timetables"); stay != (query == "") {
			t.Errorf("%q: the preview says that they stay: %v: %s", query, stay, page)
		}
		if got := hidden(t, page).Get("matched"); got != matched {
			t.Errorf("%q: %s tasks, want %s", query, got, matched)
		}
		w := p.do(request(http.MethodPost, "change", hidden(t, page)))
		if w.Code != http.StatusSeeOther {
			t.Errorf("%q: status %d: %s", query, w.Code, w.Body)
		}
		all, err := p.p.Console().Operations(t.Context())
		if pipelinetest.Must(t, err); all[0].Recurrences != (query != "") {
			t.Errorf("%q: made %+v", query, all[0])
		}
		if _, err := p.p.Console().StopOperation(t.Context(), all[0].ID); err != nil {
			t.Error(err)
		}
	}
}

// The page of a shift that is over leads to a preview of what is moved back: what it moved, and nothing has changed since.
func TestPageShiftsBack(t *testing.T) {
	t.Parallel()
	p := open(t)
	one, two := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour))), p.schedule(charge.New("ada", Charge{2}, task.In(time.Hour)))
	p.works()
	if changed := p.operates("change?do=bulk&verb=shift&owner=ada&by=2h"); changed != 2 {
		t.Errorf("%d tasks were shifted, want 2", changed)
	}
	since := p.schedule(charge.New("ada", Charge{3}, task.In(3*time.Hour)))
	two, err := p.p.Shift(t.Context(), two.ID, time.Minute)
	pipelinetest.Must(t, err)
	all, err := p.p.Console().Operations(t.Context())
	pipelinetest.Must(t, err)
	id := all[0].ID.String()
	at := "change?do=bulk.undo&id=" + id
	p.wantHas("the page of the shift", p.get(200, "operation?id="+id), "Shift back", strings.ReplaceAll(at, "&", "&amp;"))
	p.wantHas("the preview", p.get(200, at), "Change 1 task: shift by -2 h, owner ada, what operation "+id+" moved", "nothing has changed since")
	if changed := p.operates(at); changed != 1 {
		t.Errorf("%d tasks were shifted back, want 1", changed)
	}
	for _, want := range []task.Task{one, two, since} {
		if due := p.task(want.ID).DueAtMs; due != want.DueAt.UnixMilli() {
			t.Errorf("task %s is due %v later than it should", want.ID, time.UnixMilli(due).Sub(want.DueAt))
		}
	}
	p.wantHas("a second preview", p.get(200, at), "Change 0 tasks")
}

// Each preview begins an operation of its own. A form can't begin another one than it has shown.
func TestPageMassChangeIsKnownByItsForm(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	const at = "change?do=bulk&verb=shift&owner=ada&by=2h"
	form := hidden(t, p.get(200, at))
	other := hidden(t, p.get(200, at+"&once="+form.Get("once")))
	for _, f := range []url.Values{form, form, other} {
		if w := p.do(request(http.MethodPost, "change", f)); w.Code != http.StatusSeeOther {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
	form.Set("by", "3h")
	if w := p.do(request(http.MethodPost, "change", form)); w.Code != 409 || !strings.Contains(w.Body.String(), "another mass change before") {
		t.Errorf("another change by the same form: status %d: %s", w.Code, w.Body)
	}
	for _, once := range []string{"7", task.ID{}.String()} {
		form.Set("once", once)
		if w := p.do(request(http.MethodPost, "change", form)); w.Code != 400 || !strings.Contains(w.Body.String(), "the id of a form") {
			t.Errorf("the id %s: status %d: %s", once, w.Code, w.Body)
		}
	}
	if all, err := p.p.Console().Operations(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("made: %+v, %v", all, err)
	}
}

// A form that a browser sends twice makes one task, or one operation, which retries none that has died once more since.
func TestPageFormsThatComeTwice(t *testing.T) {
	t.Parallel()
	p := open(t)
	dead := p.dead(2)
	const past = "UPDATE duetime_tasks SET run_at = run_at - 7200000"
	p.exec(past)
	p.recurs()
	count := func() (n int) {
		pipelinetest.Must(t, p.p.DB().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM duetime_tasks"))
		return n
	}
	before, form := count(), hidden(t, p.get(200, "change?do=recurrence.run&owner=ada&name=hourly"))
	first := p.do(request(http.MethodPost, "change", form))
	again := p.do(request(http.MethodPost, "change", form))
	if made := count() - before; made != 1 || first.Code != 200 || again.Code != 200 {
		t.Errorf("%d tasks were made, want 1: status %d, then %d: %s", made, first.Code, again.Code, again.Body)
	}
	form.Set("once", dead[0].String())
	form.Set("owner", "bob")
	_, err := p.p.Recur(t.Context(), "hourly", recur.Every(time.Hour), charge.Recurring("bob", Charge{1}), recur.Policy{})
	pipelinetest.Must(t, err)
	if w := p.do(request(http.MethodPost, "change", form)); w.Code != 400 {
		t.Errorf("the id of another owner's task: status %d: %s", w.Code, w.Body)
	}

	form = hidden(t, p.get(200, "change?do=dead.retry&kind=order.charge&any=1"))
	first = p.do(request(http.MethodPost, "change", form))
	again = p.do(request(http.MethodPost, "change", form))
	if to := first.Header().Get("Location"); first.Code != http.StatusSeeOther || again.Header().Get("Location") != to {
		t.Errorf("retried: status %d to %q, then %d to %q", first.Code, to, again.Code, again.Header().Get("Location"))
	}
	const dies = "UPDATE duetime_tasks SET finished_at = finished_at + 60000 WHERE id = ?"
	p.exec(dies, dead[0][:]) // one has died once more
	p.works()
	all, err := p.p.Console().Operations(t.Context())
	pipelinetest.Must(t, err)
	done, err := p.p.Console().AwaitOperation(t.Context(), all[0], nil)
	pipelinetest.Must(t, err)
	if one, two := p.task(dead[0]), p.task(dead[1]); len(all) != 1 || done.Changed != 1 || one.State != task.Dead || two.State != task.Pending {
		t.Errorf("the operations %+v have left %+v and %+v", all, one, two)
	}
	for field, wrong := range map[string]string{"ids": "7", "before": "soon"} {
		other := maps.Clone(form)
		other.Set(field, wrong)
		if w := p.do(request(http.MethodPost, "change", other)); w.Code != 400 {
			t.Errorf("%s %s: status %d: %s", field, wrong, w.Code, w.Body)
		}
	}
	if form := hidden(t, p.get(200, "change?do=leader.resign&name=event")); form.Get("term") != "0" {
		t.Errorf("the form does not say whose term is to end: %v", form)
	}
}

// Nobody changes what no preview has counted.
func TestPageMassChangeNeedsAPreview(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	p.post(409, "change", "do", "bulk", "verb", "cancel", "owner", "ada")
	p.post(409, "change", "do", "bulk", "verb", "cancel", "owner", "ada", "matched", "0")
	p.post(400, "change", "do", "bulk", "verb", "retry", "owner", "ada", "state", "pending", "matched", "1")
	p.post(400, "change", "do", "bulk", "verb", "requeue", "owner", "ada", "to", "nowhere", "matched", "1")
	p.post(400, "change", "do", "bulk", "verb", "shift", "owner", "ada", "by", "soon", "matched", "1")
	p.post(404, "change", "do", "bulk", "verb", "erase", "owner", "ada", "matched", "1")
	said := p.get(200, "change?do=bulk&verb=cancel&owner=nobody")
	if strings.Contains(said, "<button>") || !strings.Contains(said, "Nothing matches") {
		t.Errorf("a preview of nothing: %s", said)
	}
	if all, err := p.p.Console().Operations(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("made: %+v, %v", all, err)
	}
}

// Dead tasks of one error are retried or discarded together, and those of another error are not.
func TestPageDeadGroups(t *testing.T) {
	t.Parallel()
	p := open(t)
	dead := p.dead(3)
	p.exec("UPDATE duetime_tasks SET last_error = 'bank shut' WHERE id = ?", dead[2][:])
	page := p.get(200, "dead")
	offered := theLink(t, page, "do", "dead.retry", "error", "bank away")
	if asked := p.get(200, offered); !strings.Contains(asked, "Retry 2 dead tasks") {
		t.Errorf("asked: %s", asked)
	}
	p.works()
	if n := p.operates(offered); n != 2 {
		t.Errorf("%d tasks were retried, want 2", n)
	}
	p.post(409, "change", "do", "dead.retry", "kind", "order.charge", "error", "bank away")
	if one, three := p.task(dead[0]), p.task(dead[2]); one.State != task.Pending || three.State != task.Dead {
		t.Errorf("retried: %+v, of another error: %+v", one, three)
	}
	p.operates("change?do=dead.discard&kind=order.charge&error=bank+shut")
	if three := p.task(dead[2]); three.State != task.Cancelled {
		t.Errorf("discarded: %+v", three)
	}
}

// Those that died since a moment are counted and retried without the others, of one error or of all.
func TestPageDeadSince(t *testing.T) {
	t.Parallel()
	p := open(t)
	dead := p.dead(4)
	const hours = 3 * 3600_000
	p.exec("UPDATE duetime_tasks SET finished_at = finished_at - ? WHERE id IN (?, ?)", hours, dead[0][:], dead[1][:])
	p.exec("UPDATE duetime_tasks SET last_error = 'bank shut' WHERE id IN (?, ?)", dead[1][:], dead[3][:])
	page := p.get(200, "dead?since=-1h")
	if !strings.Contains(page, "2 errors") || strings.Contains(page, "bulk.retry") || strings.Contains(page, "bulk.discard") {
		t.Errorf("since an hour ago: %s", page)
	}
	if page := p.get(200, "dead"); !strings.Contains(page, "bulk.retry") {
		t.Errorf("all: %s", page)
	}
	p.get(400, "dead?since=noon")
	one := theLink(t, page, "do", "dead.retry", "error", "bank away")
	all := theLink(t, page, "do", "dead.retry", "any", "1")
	p.wantList(all, dead, 2, 3)
	p.wantList(one, dead, 2)
	p.works()
	for _, to := range []string{one, all} { // all: the one that is left
		if n := p.operates(to); n != 1 {
			t.Errorf("%s: %d tasks were retried, want 1", to, n)
		}
	}
	if page := p.get(200, "dead?since=-1h"); !strings.Contains(page, "No task has died since then.") {
		t.Errorf("since an hour ago, afterwards: %s", page)
	}
	p.wantList(all, dead)
	p.get(400, "dead?kind=order.charge&since=noon")
	for i, want := range []task.State{task.Dead, task.Dead, task.Pending, task.Pending} {
		if got := p.task(dead[i]).State; got != want {
			t.Errorf("task %d is %s, want %s", i, got, want)
		}
	}
}

// theLink returns the address of the page's link whose query has these names and values.
func theLink(t *testing.T, page string, pairs ...string) string {
	t.Helper()
	for _, to := range links(t, page) {
		u, err := url.Parse(to)
		matches := err == nil
		for i := 0; matches && i < len(pairs); i += 2 {
			matches = u.Query().Get(pairs[i]) == pairs[i+1]
		}
		if matches {
			return to
		}
	}
	t.Fatalf("no link has %v: %s", pairs, page)
	return ""
}

// wantList wants exactly these of the dead tasks in the list that goes with a change, and the same change offered there.
func (p *pages) wantList(change string, dead []task.ID, places ...int) {
	p.t.Helper()
	u, err := url.Parse(change)
	pipelinetest.Must(p.t, err)
	q := u.Query()
	q.Del("do")
	page := p.get(200, "dead?"+q.Encode())
	for i, id := range dead {
		if want := slices.Contains(places, i); strings.Contains(page, "task?id="+id.String()) != want {
			p.t.Errorf("%s: task %d is listed: want %v: %s", change, i, want, page)
		}
	}
	if offered := slices.Contains(links(p.t, page), change); offered != (len(places) > 0) {
		p.t.Errorf("the list offers %s: %v: %s", change, offered, page)
	}
}

// A task's id where an owner is asked for leads to the task.
func TestPageOwnerLeadsToTask(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	theLink(t, p.get(200, "owner?owner="+made.ID.String()), "id", made.ID.String())
	if page := p.get(200, "owner?owner="+task.NewID().String()); strings.Contains(page, "task?id=") {
		t.Errorf("nobody's id leads to a task: %s", page)
	}
	if page := p.get(200, "owner?owner=ada&from=-2h"); !strings.Contains(page, `value="-2h"`) {
		t.Errorf("the form forgets where the line begins: %s", page)
	}
}

// Queues are added and retired.
func TestPageAddsAndRetiresQueues(t *testing.T) {
	t.Parallel()
	p := open(t)
	if page := p.get(200, "system"); !strings.Contains(page, "do=queue.add") || strings.Contains(page, "do=queue.retire") {
		t.Errorf("before: %s", page)
	}
	for _, want := range []string{"The queue pushes is added", "The queue pushes is there already"} {
		if said := p.confirm(200, "change?do=queue.add", "queue", "pushes"); !strings.Contains(said, want) {
			t.Errorf("added: %s, want %q", said, want)
		}
	}
	p.post(400, "change", "do", "queue.add", "queue", "no blanks")
	if page := p.get(200, "system"); !strings.Contains(page, "do=queue.retire&amp;queue=pushes") || strings.Contains(page, "do=queue.retire&amp;queue=payments") {
		t.Errorf("system offers to retire another queue: %s", page)
	}
	p.schedule(task.NewKind[Charge]("push.send", task.Queue("pushes")).New("ada", Charge{1}, task.In(time.Hour)))
	if said := p.post(400, "change", "do", "queue.retire", "queue", "pushes"); !strings.Contains(said, "1 pending task") {
		t.Errorf("a queue with a task: %s", said)
	}
	p.post(400, "change", "do", "queue.retire", "queue", "payments")
	_, err := p.p.CancelOwner(t.Context(), "ada", "push.send")
	pipelinetest.Must(t, err)
	if said := p.confirm(200, "change?do=queue.retire&queue=pushes"); !strings.Contains(said, "The queue pushes is retired") {
		t.Errorf("retired: %s", said)
	}
}

// Queues, leaders and recurrences.
func TestPageChangesTheDeployment(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.recurs()
	if said := p.confirm(200, "change?do=queue.pause&queue=payments"); !strings.Contains(said, "The queue payments is paused") {
		t.Errorf("paused: %s", said)
	}
	if said := p.confirm(200, "change?do=queue.pause&queue=payments"); !strings.Contains(said, "was paused before") {
		t.Errorf("paused twice: %s", said)
	}
	if page := p.get(200, "system"); !strings.Contains(page, "do=queue.resume") {
		t.Errorf("health does not offer to resume: %s", page)
	}
	p.confirm(200, "change?do=queue.resume&queue=payments")
	if said := p.confirm(200, "change?do=queue.pause&queue=payments", "until", "+1h"); !strings.Contains(said, "Paused: queue=payments, until ") {
		t.Errorf("paused until a time: %s", said)
	}
	p.confirm(200, "change?do=queue.resume&queue=payments")
	if said := p.confirm(200, "change?do=pause.tasks&owner=ada", "until", "+1h"); !strings.Contains(said, "Paused: owner=ada, until ") {
		t.Errorf("an owner is paused: %s", said)
	}
	p.post(400, "change", "do", "pause.tasks", "owner", "ada", "until", "soon")
	p.post(400, "change", "do", "pause.tasks", "until", "+1h")
	p.get(400, "change?do=pause.end")
	if page := p.get(200, "system"); !strings.Contains(page, "do=pause.end&amp;owner=ada") {
		t.Errorf("system does not offer to resume the owner: %s", page)
	}
	for _, want := range []string{"Resumed: owner=ada", "It was not paused: owner=ada"} {
		if said := p.confirm(200, "change?do=pause.end&owner=ada"); !strings.Contains(said, want) {
			t.Errorf("resumed: %s, want %q", said, want)
		}
	}
	p.get(400, "change?do=queue.pause&queue=meals")
	p.post(400, "change", "do", "queue.pause", "queue", "meals")
	p.confirm(200, "change?do=queue.limit&queue=payments", "rate", "50/m", "owner_rate", "5/s", "concurrency", "7")
	limits, err := p.p.Console().Queues(t.Context())
	pipelinetest.Must(t, err)
	if limits[0].Rate.String() != "50/m" || limits[0].OwnerRate.String() != "5/s" || limits[0].Concurrency != 7 {
		t.Errorf("limits: %+v", limits)
	}
	p.post(400, "change", "do", "queue.limit", "queue", "payments", "rate", "1/s", "concurrency", "-1")
	if limits, err = p.p.Console().Queues(t.Context()); err != nil || limits[0].Rate.String() != "50/m" {
		t.Errorf("a limit that was refused has set the rate: %+v, %v", limits, err)
	}
	p.confirm(200, "change?do=queue.limit&queue=payments", "rate", "", "concurrency", "default")

	p.get(400, "change?do=leader.resign&name=nobody")
	p.post(409, "change", "do", "leader.resign", "name", "event")

	of := "&owner=ada&name=hourly"
	p.confirm(200, "change?do=recurrence.pause"+of, "note", "bank away")
	page := p.get(200, "owner?owner=ada")
	if !strings.Contains(page, "bank away") || !strings.Contains(page, "do=recurrence.resume") {
		t.Errorf("paused: %s", page)
	}
	p.confirm(200, "change?do=recurrence.resume"+of)
	p.confirm(200, "change?do=recurrence.run"+of)
	link := regexp.MustCompile(`<td>extra task</td>.*?href="(tasks\?id=[^"]+)"`).FindStringSubmatch(p.get(200, "changes"))
	if link == nil {
		t.Fatal("the extra task has no link")
	}
	p.get(200, link[1])
	p.confirm(200, "change?do=recurrence.stop"+of)
	if page := p.get(200, "changes"); regexp.MustCompile(`<td>(paused|resumed|stopped)</td>.*href="tasks`).MatchString(page) {
		t.Errorf("what was done to a recurrence has a link to a task: %s", page)
	}
	if life, err := p.p.Console().Recurrence(t.Context(), "ada", "hourly"); err != nil || life.State != task.RecurrenceStopped {
		t.Errorf("stopped: %+v, %v", life, err)
	}
	p.get(404, "change?do=recurrence.stop&owner=ada&name=none")
}

// A form of limits changes what somebody changes in it. The other limit stays as configured, or as another operator has set it since.
func TestPageLimitsLeaveTheOtherAlone(t *testing.T) {
	t.Parallel()
	p := open(t)
	const asked = "change?do=queue.limit&queue=payments"
	first := hidden(t, p.get(200, asked))
	set := func(rate, concurrency string) {
		t.Helper()
		p.post(200, "change", "do", "queue.limit", "queue", "payments", "rate", rate, "concurrency", concurrency,
			"shown_rate", first.Get("shown_rate"), "shown_concurrency", first.Get("shown_concurrency"))
	}
	stands := func() (row string) {
		t.Helper()
		pipelinetest.Must(t, p.p.DB().GetContext(t.Context(), &row, "SELECT CONCAT(COALESCE(rate, 'as configured'), ', ', "+
			"COALESCE(concurrency, 'as configured')) FROM duetime_limits WHERE queue = 'payments'"))
		return row
	}
	set("50/m", "default")
	if rows := stands(); rows != "50/m, as configured" {
		t.Errorf("one rate was set: %s", rows)
	}
	set("default", "7") // by somebody who asked for the form before
	if rows := stands(); rows != "50/m, 7" {
		t.Errorf("one concurrency was set: %s", rows)
	}
	if form := p.get(200, asked); !strings.Contains(form, `value="50/m"`) || !strings.Contains(form, `value="7"`) {
		t.Errorf("the form shows not what is set: %s", form)
	}
	p.confirm(200, asked, "rate", "default", "concurrency", "")
	if rows := stands(); rows != "as configured, 0" {
		t.Errorf("as configured, and none: %s", rows)
	}
}

// Both limits of a form are set, or neither is.
func TestPageSetsBothLimitsOrNeither(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.exec("CREATE TRIGGER breaks BEFORE INSERT ON duetime_history FOR EACH ROW " +
		"IF NEW.detail LIKE '%concurrency%' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the line can not be written'; END IF")
	set := []string{"do", "queue.limit", "queue", "payments", "rate", "50/m", "concurrency", "7"}
	p.post(500, "change", set...)
	if limits, err := p.p.Console().Queues(t.Context()); err != nil || limits[0].ByOperator {
		t.Errorf("after a change that failed: %+v, %v", limits, err)
	}
	p.exec("DROP TRIGGER breaks")
	p.post(200, "change", set...)
	if limits, err := p.p.Console().Queues(t.Context()); err != nil || limits[0].Rate.String() != "50/m" || limits[0].Concurrency != 7 {
		t.Errorf("limits: %+v, %v", limits, err)
	}
}

// The dialog gets the question alone, and a whole page gets the same without scripts.
func TestPageDialog(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	const cancel = "change?do=task.cancel&id="
	for at, want := range map[string]int{cancel + made.ID.String(): 200, cancel + task.NewID().String(): 404} {
		r := request(http.MethodGet, at, nil)
		r.Header.Set("HX-Request", "true")
		r.Header.Set("HX-Target", "dialog-body")
		w := p.do(r)
		if w.Code != want || strings.Contains(w.Body.String(), "<html") || !strings.Contains(w.Body.String(), "<section") {
			t.Errorf("%s: status %d: %s", at, w.Code, w.Body)
		}
	}
	live := p.get(200, "changes?part=live")
	if strings.Contains(live, "<html") || strings.Contains(live, "<h1") || !strings.Contains(live, "<table") {
		t.Errorf("the live part is %s", live)
	}
	r := request(http.MethodPost, "change", url.Values{"do": {"bulk"}, "verb": {"cancel"}, "owner": {"ada"}, "matched": {"1"}})
	r.Header.Set("HX-Request", "true")
	if w := p.do(r); w.Code != http.StatusNoContent || !strings.HasPrefix(w.Header().Get("HX-Redirect"), "operation?id=") {
		t.Errorf("a mass change from the dialog: status %d, %v", w.Code, w.Header())
	}
}

// The search finds by each name of an address, goes on behind a cursor, and keeps what was typed when it is wrong.
func TestPageSearch(t *testing.T) {
	t.Parallel()
	p := open(t)
	var ids []string
	for i := range console.DefaultPage + 1 {
		made := p.schedule(charge.New("ada", Charge{i}, task.In(time.Hour+time.Duration(i)*time.Second)))
		ids = append(ids, made.ID.String())
	}
	other := p.schedule(charge.New("bob", Charge{0}, task.In(48*time.Hour), task.Subject("order 7"), task.Label("city", "Rome")))
	for at, want := range map[string]bool{
		"id=" + other.ID.String(): true, "owner=bob": true, "subject=order+7": true, "label=city%3DRome": true, "after=%2B1d": true,
		"owner=bob&state=pending": true, "owner=bob&kind=order.charge&queue=payments": true,
		"owner=bob&state=dead": false, "owner=bob&before=%2B1d": false, "subject=order+8": false, "label=city%3DOslo": false,
	} {
		page := p.get(200, "tasks?"+at)
		if strings.Contains(page, ids[0]) || strings.Contains(page, other.ID.String()) != want {
			t.Errorf("%s finds %s", at, page)
		}
	}
	for _, at := range []string{
		"tasks?owner=ada", "tasks?owner=ada&state=pending", "tasks?kind=order.charge&before=%2B1d", "tasks",
	} {
		page := p.get(200, at)
		var next string
		for _, e := range elements(t, page) {
			if e.attrs["rel"] == "next" {
				next = e.attrs["href"]
			}
		}
		second, last := p.get(200, next), ids[len(ids)-1]
		if !strings.Contains(page, ids[0]) || strings.Contains(page, last) {
			t.Errorf("%s: the first page is %s", at, page)
		}
		if strings.Contains(second, ids[0]) || !strings.Contains(second, last) {
			t.Errorf("%s: the second page is %s", at, second)
		}
	}
	for wrong, kept := range map[string]string{
		"after=soon": "due:soon..", "label=city": "label:city", "state=lost": "state:lost", "cursor=x": "", "owner=ada&cursor=x": "owner:ada", "id=7": "id:7",
	} {
		page := p.get(400, "tasks?"+wrong)
		if !strings.Contains(page, `value="`+kept+`"`) || !strings.Contains(page, `role="alert"`) {
			t.Errorf("%s: %s", wrong, page)
		}
	}
	p.get(404, "tasks?id="+task.NewID().String())
}

// What may read all rows waits for its turn, whatever it chooses. An owner's list waits for nothing.
func TestPageReadsAllOwnersOneAtATime(t *testing.T) {
	t.Parallel()
	p := open(t)
	h, walks, err := consoleweb.HandlerWithWalks(p.p.Console(), consoleweb.Config{Open: "ann@desk", Logger: slog.New(slog.DiscardHandler)})
	pipelinetest.Must(t, err)
	p.h = h
	p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour), task.Label("city", "Rome")))
	p.dead(1)
	const deadOf = "change?do=dead.retry&kind=order.charge&any=1"
	waiting := []string{
		"tasks", "tasks?kind=order.charge", "tasks?label=city%3DRome", "tasks?label=city%3DRome&state=pending",
		"change?do=bulk&verb=cancel&kind=order.charge", "change?do=bulk&verb=shift&by=2h&owner=ada", deadOf,
	}
	for _, at := range waiting {
		p.get(200, at)
	}
	walks <- struct{}{} // somebody reads
	for _, at := range waiting {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		w := p.do(request(http.MethodGet, at, nil).WithContext(ctx))
		cancel()
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s went on beside another reading: status %d", at, w.Code)
		}
	}
	for _, at := range []string{"tasks?owner=ada", "tasks?owner=ada&label=city%3DRome", "owner?owner=ada", "change?do=bulk&verb=shift&owner=ada"} {
		p.get(200, at)
	}
	<-walks
	p.confirm(http.StatusSeeOther, deadOf)
	if len(walks) > 0 {
		t.Error("a reading that has ended holds up others")
	}
}

// Language and theme are kept in cookies, and the browser is led back to a page of ours only.
func TestPageSettings(t *testing.T) {
	t.Parallel()
	p := open(t)
	for back, want := range map[string]string{
		"tasks?owner=a%26b": "tasks?owner=a%26b", "system": "system", "": "now", "https://evil.example/": "now",
		"//evil.example/search": "now", "javascript:alert(1)": "now", "../search": "now", "/search": "now",
		"change?do=x": "now",
	} {
		w := p.do(request(http.MethodPost, "settings", url.Values{"lang": {"zh"}, "theme": {"dark"}, "back": {back}}))
		if got := w.Header().Get("Location"); got != want || w.Code != http.StatusSeeOther {
			t.Errorf("%q leads to %q with %d", back, got, w.Code)
		}
		r := request(http.MethodGet, "tasks", nil)
		for _, cookie := range w.Result().Cookies() {
			if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
				t.Errorf("cookie %+v", cookie)
			}
			r.AddCookie(cookie)
		}
		page := p.do(r).Body.String()
		if !strings.Contains(page, `lang="zh-Hans" data-theme="dark"`) || !strings.Contains(page, "没有符合的任务") {
			t.Errorf("the page is %s", page)
		}
	}
	w := p.do(request(http.MethodPost, "settings", url.Values{"lang": {"xx"}, "theme": {"\"><script>"}}))
	if cookies := w.Result().Cookies(); len(cookies) > 0 {
		t.Errorf("kept %v", cookies)
	}
}

// An owner is blocked and unblocked by forms alone. Its page and the audit say so.
func TestPageBlocksAnOwner(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	block := theLink(t, p.get(200, "owner?owner=ada"), "do", "owner.block", "owner", "ada")
	asked := p.get(200, block)
	if !strings.Contains(asked, "Block the owner ada?") || !strings.Contains(asked, "1 pending task is cancelled") || !strings.Contains(asked, made.ID.String()) {
		t.Errorf("asked: %s", asked)
	}
	if p.task(made.ID).State != task.Pending {
		t.Error("the question has cancelled the task")
	}
	if said := p.confirm(200, block); !strings.Contains(said, "1 task was cancelled") {
		t.Errorf("said: %s", said)
	}
	if life := p.task(made.ID); life.State != task.Cancelled {
		t.Errorf("the task is %+v", life)
	}
	page := p.get(200, "owner?owner=ada")
	unblock := theLink(t, page, "do", "owner.unblock", "owner", "ada")
	if !strings.Contains(page, "Blocked: nothing is scheduled") || !strings.Contains(page, "ann@desk") || strings.Contains(page, "owner.block&") {
		t.Errorf("the owner's page: %s", page)
	}
	theLink(t, p.get(200, "owner"), "owner", "ada")
	p.confirm(200, unblock)
	page = p.get(200, "owner?owner=ada")
	if theLink(t, page, "do", "owner.block"); strings.Contains(page, "Blocked: nothing") {
		t.Errorf("the owner's page, unblocked: %s", page)
	}
	for _, event := range []string{protocol.EventBlocked, protocol.EventUnblocked} {
		audit, err := p.p.Console().Audit(t.Context(), console.AuditQuery{Event: event})
		pipelinetest.Must(t, err)
		if len(audit.Lines) != 1 || audit.Lines[0].Actor != "ann@desk" || !strings.Contains(audit.Lines[0].Detail, "ada") {
			t.Errorf("%s: the audit has %+v", event, audit.Lines)
		}
		if page := p.get(200, "changes?event="+event); !strings.Contains(page, "ada") {
			t.Errorf("the page's audit: %s", page)
		}
	}
	for _, event := range []string{protocol.EventBlocked, protocol.EventUnblocked} {
		if !strings.Contains(p.get(200, "changes"), `<option value="`+event+`">`) {
			t.Errorf("the audit can't be asked for %s", event)
		}
	}
	p.get(400, "change?do=owner.block&owner=")
	p.post(400, "change", "do", "owner.block")
}
