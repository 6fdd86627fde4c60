package consoleweb_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// A search without an owner and the mass change below it mean the same window: that of the due time, also of tasks whose attempts
// have failed.
func TestWindowIsOfTheDueTime(t *testing.T) {
	t.Parallel()
	p := open(t)
	kind := task.NewKind[struct{}]("mail.send", task.Queue("payments"))
	now := time.Now()
	made := p.schedule(kind.New("ann", struct{}{}, task.In(time.Hour)))
	for verb, state := range map[string]task.State{"cancel": task.Pending, "retry": task.Dead} {
		_, err := p.p.DB().ExecContext(t.Context(),
			"UPDATE duetime_tasks SET attempt = 3, run_at = due_at + 7200000, version = version + 1, state = ?", int8(state))
		pipelinetest.Must(t, err)
		for window, want := range map[[2]time.Duration]bool{
			{30 * time.Minute, 90 * time.Minute}: true, {150 * time.Minute, 210 * time.Minute}: false,
		} {
			form := url.Values{"state": {state.String()}}
			form.Set("after", now.Add(window[0]).UTC().Format(time.RFC3339))
			form.Set("before", now.Add(window[1]).UTC().Format(time.RFC3339))
			shown := strings.Contains(p.get(200, "tasks?"+form.Encode()), made.ID.String())
			form.Del("state") // as the page's form sends it
			form.Set("do", "bulk")
			form.Set("verb", verb)
			taken := strings.Contains(p.get(200, "change?"+form.Encode()), made.ID.String())
			form.Del("do")
			form.Set("bounds", "run") // as a link from Ahead
			form.Set("state", state.String())
			page := p.get(200, "tasks?"+form.Encode())
			if at := strings.Contains(page, made.ID.String()); at == want || strings.Contains(page, `class="filter bulk"`) {
				t.Errorf("%s tasks, window %v of the next attempt: the list shows it: %v, want that, and no mass change", state, window, at)
			}
			if shown != want || taken != want {
				t.Errorf("%s tasks, window %v: the list shows it: %v; %s takes it: %v; want %v", state, window, shown, verb, taken, want)
			}
		}
	}
}

// A search and the mass change below it leave the same tasks out.
func TestSearchExcludes(t *testing.T) {
	t.Parallel()
	p := open(t)
	kept := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	out := p.schedule(charge.New("ada", Charge{2}, task.In(time.Hour), task.Label("event", "siege")))
	other := p.schedule(task.NewKind[struct{}]("mail.send", task.Queue("payments")).New("ada", struct{}{}, task.In(time.Hour)))
	for _, owner := range []string{"ada", ""} {
		form := url.Values{"owner": {owner}, "excludekind": {"mail.send, mail.read"}, "excludelabel": {"event=feast,event=siege"}}
		list := p.get(200, "tasks?"+form.Encode())
		sent := hidden(t, list) // as the form of the mass change sends it
		sent.Set("do", "bulk")
		sent.Set("verb", "cancel")
		preview := p.get(200, "change?"+sent.Encode())
		for name, page := range map[string]string{"list": list, "preview": preview} {
			for id, want := range map[task.ID]bool{kept.ID: true, out.ID: false, other.ID: false} {
				if strings.Contains(page, "task?id="+id.String()) != want {
					t.Errorf("owner %q: the %s has %s: want %v: %s", owner, name, id, want, page)
				}
			}
		}
		if !strings.Contains(preview, "without kind mail.send") || !strings.Contains(preview, "without label event=siege") {
			t.Errorf("the preview says %s", preview)
		}
	}
	p.get(400, "tasks?owner=ada&excludelabel=event")
}

// The tasks of a list, and those that a mass change below it chooses, are the same.
func TestQueryListsWhatIsChanged(t *testing.T) {
	t.Parallel()
	p := open(t)
	mail := task.NewKind[struct{}]("mail.send", task.Queue("payments"))
	dead := p.dead(1)[0] // ada's
	made := map[string]task.ID{
		"dead": dead,
		"soon": p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour), task.Label("shop", "Z"))).ID,
		"mail": p.schedule(mail.New("ada", struct{}{}, task.In(2*time.Hour))).ID,
		"late": p.schedule(mail.New("a b", struct{}{}, task.In(time.Hour), task.Subject("order 7"))).ID,
	}
	late := made["late"]
	p.exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at WHERE id = ?", late[:])
	for query, want := range map[string]string{
		"owner:ada state:pending": "soon mail", "owner:ada -kind:mail.send state:pending": "soon", "label:shop=Z": "soon", "kind:mail.send": "mail late",
		"late": "late", `owner:"a b"`: "late", `subject:"order 7" late`: "late", "owner:ada late": "", "due:+90m..+3h": "mail", "due:..now kind:mail.send": "late",
		"state:pending -label:shop=Z": "mail late", "owner:ada state:dead": "dead", "queue:payments -kind:mail.send": "soon",
	} {
		list := p.get(200, "tasks?q="+url.QueryEscape(query))
		verb := "cancel"
		if strings.Contains(query, "dead") {
			verb = "discard"
		}
		if !strings.Contains(list, `<option value="`+verb+`"`) || verb == "cancel" && strings.Contains(query, "late") && strings.Contains(list, `<option value="retry"`) {
			t.Errorf("%s offers other verbs than %s: %s", query, verb, list)
		}
		sent := hidden(t, list)
		sent.Set("verb", verb)
		preview := p.get(200, "change?"+sent.Encode())
		for name, id := range made {
			listed, chosen := strings.Contains(list, "task?id="+id.String()), strings.Contains(preview, "task?id="+id.String())
			if wanted := slices.Contains(strings.Fields(want), name); listed != wanted || chosen != wanted {
				t.Errorf("%s: %s is listed: %v, and chosen: %v, want %v", query, name, listed, chosen, wanted)
			}
		}
	}
	p.get(400, "change?do=query&verb=retry&q=late")
	p.get(400, "change?do=query&verb=cancel&q=run:..now")
	p.get(400, "change?do=query&verb=cancel&q=id:"+dead.String())
	form := hidden(t, p.get(200, "change?do=query&verb=cancel&q=late"))
	if q := form.Get("q"); strings.Contains(q, "late") || !strings.HasPrefix(q, "due:..2") {
		t.Errorf("the form of late tasks sends %q: other ones may be late when it comes back", q)
	}
}

// A word without a key is what the box at the top takes it for. A word that is none of a query is named, and nothing is searched.
func TestQueryWords(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour))).ID.String()
	absent := task.NewID().String()
	field := func(page string) string {
		for _, e := range elements(t, page) {
			if e.attrs["id"] == "query" {
				return e.attrs["value"]
			}
		}
		return "no field"
	}
	for text, want := range map[string]string{
		id: "id:" + id, "ada": "owner:ada", "order.charge": "kind:order.charge", "payments ada": "queue:payments owner:ada", "nobody": "owner:nobody",
		`late "x:y"`: `late owner:x:y`,
	} {
		page := p.get(200, "tasks?q="+url.QueryEscape(text))
		if got := field(page); got != want || strings.Contains(page, "task?id="+id) == (strings.Contains(want, "nobody") || strings.Contains(want, "late")) {
			t.Errorf("%s is read as %q, want %q: %s", text, got, want, page)
		}
	}
	if page := p.get(404, "tasks?q="+absent); field(page) != "id:"+absent {
		t.Errorf("an id of no task: %s", page)
	}
	for text, says := range map[string]string{
		"colour:red ada": "colour:red is wrong. Write owner:", "ada eve": ">eve is wrong. It can", "owner:ada due:soon..": "due:soon.. is wrong. This is no time",
	} {
		page := p.get(400, "tasks?q="+url.QueryEscape(text))
		if !strings.Contains(page, says) || strings.Contains(page, "task?id=") || strings.Contains(page, `name="verb"`) {
			t.Errorf("%s: %s", text, page)
		}
		if got := field(page); !strings.HasSuffix(got, strings.Fields(text)[1]) {
			t.Errorf("%s: the field has %q", text, got)
		}
	}
}

// What a list of several pages has in all is counted after it, and said where a mass change would take it.
func TestListIsCounted(t *testing.T) {
	t.Parallel()
	p := open(t)
	for i := range 130 {
		p.schedule(charge.New("ada", Charge{i}, task.In(time.Hour)))
	}
	list := p.get(200, "tasks?q=kind:order.charge")
	p.wantHas("the list", list, `hx-get="tasks?part=count`, "Change all 100&#43; that match")
	pipelinetest.Await(t, "the count", func() bool {
		t.Log(p.get(200, "tasks?q=kind:order.charge&part=count"))
		return p.get(200, "tasks?q=kind:order.charge&part=count") == "Change all 130 that match"
	})
	if short := p.get(200, "tasks?q=kind:order.other"); strings.Contains(short, "part=count") {
		t.Errorf("a list that is whole is counted: %s", short)
	}
}

// The row of states marks the one that all tasks of the list have, and keeps the rest of the query. Of a query that can't be read
// nothing can be kept.
func TestQueryStates(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	for text, want := range map[string]string{
		"late": "pending", "kind:order.charge": "pending", "owner:ada": "", "owner:ada late": "pending", "owner:ada state:dead": "dead", "state:done": "done",
	} {
		page, marked := p.get(200, "tasks?q="+url.QueryEscape(text)), ""
		for _, e := range elements(t, page) {
			if strings.HasPrefix(e.attrs["href"], "tasks?") && e.attrs["aria-current"] != "" {
				marked += e.text
			}
		}
		if marked != want {
			t.Errorf("%s: %q is marked, want %q", text, marked, want)
		}
		if strings.Contains(text, "owner:ada") {
			theLink(t, page, "q", "owner:ada state:cancelled")
		}
	}
	if page := p.get(400, "tasks?q="+url.QueryEscape("owner:ada knd:x")); strings.Contains(page, "state%3Acancelled") {
		t.Errorf("a state of all owners takes the place of a query that can't be read: %s", page)
	}
}

// Each part of the query can be taken away, and what stands in the list or is known otherwise can be added.
func TestQueryGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	p.works() // its worker handles order.other
	pipelinetest.Await(t, "the worker's report", func() bool {
		alive, err := p.p.Console().Processes(t.Context())
		return err == nil && len(alive) == 1
	})
	page := p.get(200, "tasks?queue=payments&after=-1h")
	for _, q := range []string{
		"due:-1h..", "queue:payments", // without one part
		"queue:payments due:-1h.. kind:order.charge", "queue:payments due:-1h.. owner:ada", // with one more
	} {
		p.get(200, theLink(t, page, "q", q))
	}
	var offered []string
	for _, e := range elements(t, page) {
		if e.name == "option" && e.attrs["data-clause"] != "" {
			offered = append(offered, e.attrs["value"])
		}
	}
	for _, clause := range []string{"kind:order.charge", "kind:order.other", "-kind:order.other", "state:dead", "owner:", "late"} {
		if !slices.Contains(offered, "queue:payments due:-1h.. "+clause) {
			t.Errorf("%s is not offered: %q", clause, offered)
		}
	}
	if strings.Contains(strings.Join(offered, "\n"), " queue:") {
		t.Errorf("another queue is offered: %q", offered)
	}
	page = p.get(200, "tasks?kind=order.charge&after=-1h&bounds=run")
	theLink(t, page, "q", "kind:order.charge owner:ada") // a list for an owner has no bounds of the next attempt
	page = p.get(200, "tasks?q=owner:ada+kind:order.charge")
	if strings.Count(page, "owner?owner=ada") != 2 || slices.Contains(links(t, page), "tasks?q=owner%3Aada+kind%3Aorder.charge") {
		t.Errorf("beside the field and in the list, the owner leads to the line: %s", page)
	}
}
