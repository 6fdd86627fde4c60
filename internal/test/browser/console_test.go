package browser_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// TestConsole goes through each view and each action. The names of its parts are the list of what it covers.
func TestConsole(t *testing.T) {
	w := newWorld(t, longMeal)
	w.schedule("ann", 20*time.Minute, 25*time.Minute, time.Hour)
	w.recur("ann", "breakfast")
	w.schedule("early", 0, 0)
	pipelinetest.Await(t, "tasks that are done", func() bool {
		return w.number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = 'early' AND state = 0") == 0
	})
	for _, part := range []struct {
		name string
		run  func(w *world, p *tab)
	}{
		{"now/what was and what will be opens lists", nowOpensLists},
		{"tasks/by owner, kind, state and id", searchFinds},
		{"tasks/by the keyboard alone", searchByKeys},
		{"tasks/pages", searchPages},
		{"tasks/mass change with preview and progress", searchShiftsAll},
		{"tasks/rows that are chosen by keys", searchShiftsChosen},
		{"operation/pause, resume, stop", operationIsSteered},
		{"owner/drag a task", ownerDrags},
		{"owner/drag and say no", ownerDragsBack},
		{"owner/drag a task that ended meanwhile", ownerDragsTooLate},
		{"owner/close an answer that comes just then", ownerClosesEarly},
		{"owner/move by keyboard", ownerMovesByKeys},
		{"owner/recurrence: pause, resume, run, stop", recurrenceIsSteered},
		{"task/move to a typed time", taskMoves},
		{"task/cancel", taskCancels},
		{"task/retry and discard", taskRetries},
		{"dead/retry a group, discard a kind", deadGroups},
		{"system/pause and resume a queue", healthPauses},
		{"system/limit a queue", healthLimits},
		{"system/resign a leader", healthResigns},
		{"changes/who did what", auditTells},
		{"layout/languages, themes, keys", layoutChanges},
		{"layout/hostile texts", hostileTextsStay},
		{"layout/live figures", figuresLive},
		{"layout/without scripts", scriptsAreNotNeeded},
		{"layout/other sites are refused", otherSitesAreRefused},
	} {
		w.do(t, w.console, part.name, part.run)
	}
}

func nowOpensLists(w *world, p *tab) {
	p.show("ahead?span=6h") // an address of before
	p.await("location.href.includes('now?span=6h')")
	p.there(".nowline .will a")
	p.there("h2.verdict")
	wantHas(w.t, "the components", p.text(".components"), "Kafka")
	p.follow(".kinds td a[href*='bounds=run']", "tasks?")
	p.says("main table", "ann")
	p.show("now?span=6h")
	p.follow(`a[href*="by=queue"]`, "by=queue")
	wantHas(w.t, "the rows by queue", p.text("table.kinds"), "default")
	p.follow("table.kinds tbody th a", "queue=default")
	want(w.t, "rows of one queue", p.count("table.kinds tbody tr"), 1)
}

func searchFinds(w *world, p *tab) {
	made := w.schedule("sought", time.Hour)[0]
	p.show("tasks")
	p.fill("#query", "owner:sought")
	p.leave(func() { p.press(enter) })
	p.says("main table", made.ID.String())
	p.show("tasks?" + url.Values{"kind": {"pet.meal_finished"}, "state": {"done"}}.Encode())
	p.says("main table", "early")
	p.show("tasks?id=" + made.ID.String())
	p.follow("a.id", "task?id=")
	p.says("h1", "pet.meal_finished")
	p.show("tasks?after=yesterday")
	p.forgive("400")
	wantHas(w.t, "a time that is none", p.text(".mistake"), "no time")
}

// A query is typed, completed and taken apart without a mouse.
func searchByKeys(w *world, p *tab) {
	made := w.schedule("typist", time.Hour)[0]
	tabTo := func(holds string) {
		w.t.Helper()
		for range 60 {
			p.press(kb.Tab)
			if eval[bool](p, "Boolean("+holds+")") {
				return
			}
		}
		w.t.Fatalf("no tab stop has %s", holds)
	}
	p.show("tasks")
	tabTo("document.activeElement.id === 'query'")
	const typed = "owner:typist kind:pet.meal_f"
	p.press(typed)
	// Keys don't reach the browser's list without a screen: what it offers is read.
	offered := "[...document.getElementById('query').list.options].map(o => o.value).find(v => v.startsWith(" + quoted(typed) + "))"
	p.await(offered)
	p.press(strings.TrimPrefix(eval[string](p, offered), typed))
	want(w.t, "the query", eval[string](p, "document.getElementById('query').value"), "owner:typist kind:pet.meal_finished")
	p.leave(func() { p.press(enter) })
	p.says("main table", made.ID.String())
	tabTo("(document.activeElement.getAttribute('aria-label') || '').endsWith('owner:typist')")
	p.leave(func() { p.press(enter) })
	want(w.t, "the query", eval[string](p, "document.getElementById('query').value"), "kind:pet.meal_finished")
	tabTo("document.activeElement.closest('.rows') && document.activeElement.innerText === 'typist'")
	p.leave(func() { p.press(enter) })
	want(w.t, "the query", eval[string](p, "document.getElementById('query').value"), "kind:pet.meal_finished owner:typist")
}

func searchPages(w *world, p *tab) {
	many := make([]time.Duration, 130)
	for i := range many {
		many[i] = 3*time.Hour + time.Duration(i)*time.Second
	}
	w.schedule("many", many...)
	p.show("tasks?owner=many")
	want(w.t, "tasks of the first page", p.count("main tbody tr"), 100)
	p.follow("a[rel=next]", "cursor=")
	want(w.t, "tasks of the second page", p.count("main tbody tr"), 30)
	p.show("tasks?owner=many&state=pending")
	p.says("#bulk h2", "Change all 130 that match")
}

func searchShiftsAll(w *world, p *tab) {
	made := w.schedule("shop", time.Hour, 2*time.Hour, 3*time.Hour)
	p.show("tasks?owner=shop&state=pending")
	p.click("form.bulk button")
	p.there("#dialog[open] input[name=by]")
	p.fill("#dialog-body input[name=by]", "2h")
	p.press(enter)
	p.says("#dialog-body h1", "3")
	want(w.t, "tasks of the sample", p.count("#dialog-body tbody tr"), 3)
	p.click("#dialog-body form button")
	p.await("location.href.includes('operation?id=')")
	p.await("document.querySelector('.state.done')") // by itself
	for _, one := range made {
		now := w.row(one.ID)
		want(w.t, "how far a task was moved", now.DueAt.Sub(one.DueAt), 2*time.Hour)
	}
}

// Rows are chosen by keys, and the bar says how many it would change. New figures leave them chosen.
func searchShiftsChosen(w *world, p *tab) {
	made := w.schedule("chosen", time.Hour, 2*time.Hour, 3*time.Hour, 4*time.Hour)
	p.do(chromedp.EmulateViewport(1280, 500))
	p.show("tasks?owner=chosen&state=pending")
	says := func() string { return eval[string](p, "document.querySelector('#bulk h2').innerText") }
	want(w.t, "the bar before", says(), "Change all 4 that match")
	for _, key := range []string{"j", "j", "j", "k", "x", "j", "j", "X", "x"} { // the fourth is given up again
		p.press(key)
	}
	want(w.t, "chosen", p.count(".pick :checked"), 2)
	eval[bool](p, "htmx.ajax('GET', document.getElementById('found').getAttribute('hx-get'), '#found').then(() => true, () => true)")
	want(w.t, "chosen, after new figures", p.count(".pick :checked"), 2)
	want(w.t, "the bar", says(), "Change the chosen")
	want(w.t, "its count", eval[string](p, "getComputedStyle(document.querySelector('.picked'), '::after').content"), `": " counter(picked)`)
	p.await(inSight("#bulk button"))
	p.click("#bulk button")
	p.there("#dialog[open] input[name=by]")
	p.fill("#dialog-body input[name=by]", "2h")
	p.press(enter)
	p.says("#dialog-body h1", "2")
	p.click("#dialog-body form button")
	p.await("location.href.includes('operation?id=')")
	p.await("document.querySelector('.state.done')")
	for i, by := range []time.Duration{0, 2 * time.Hour, 2 * time.Hour, 0} {
		want(w.t, "how far a task was moved", w.row(made[i].ID).DueAt.Sub(made[i].DueAt), by)
	}
}

func operationIsSteered(w *world, p *tab) {
	w.schedule("steered", make([]time.Duration, 40)...)
	many := make([]time.Duration, 200)
	for i := range many {
		many[i] = 5 * time.Hour
	}
	w.schedule("steered", many...)
	p.show("change?" + url.Values{"do": {"bulk.shift"}, "owner": {"steered"}, "by": {"1h"}, "after": {"+1h"}}.Encode())
	p.fill("input[name=rate]", "1")
	p.click("main form button")
	p.await("location.href.includes('operation?id=')")
	wantHas(w.t, "paused", p.change(`a[href*="operation.pause"]`), "paused")
	p.there(".state.paused")
	p.change(`a[href*="operation.resume"]`)
	p.change(`a[href*="operation.stop"]`)
	p.await("document.querySelector('.state.cancelled')")
	p.show("changes")
	wantHas(w.t, "the list of operations", p.text("main table"), "steered")
}

// point is the place of a task on its owner's line, in the window.
func point(p *tab, id task.ID) (x, y float64) {
	p.t.Helper()
	selector := `a.free[data-id="` + id.String() + `"] circle`
	p.there(selector)
	p.use(chromedp.ScrollIntoView(chromedp.CSS(selector)))
	at := eval[map[string]float64](p, "(r => ({x: r.x + r.width / 2, y: r.y + r.height / 2}))(document.querySelector("+quoted(selector)+").getBoundingClientRect())")
	return at["x"], at["y"]
}

// drag moves the mouse with its button held.
func drag(p *tab, x, y, by float64) {
	p.t.Helper()
	mouse := func(kind input.DispatchMouseEventType, x float64) chromedp.Action[chromedp.Void] {
		return chromedp.MouseEvent(kind, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1))
	}
	p.do(mouse(chromedp.MousePressed, x), mouse(chromedp.MouseMoved, x+by/2), mouse(chromedp.MouseMoved, x+by), mouse(chromedp.MouseReleased, x+by))
}

func ownerDrags(w *world, p *tab) {
	made := w.schedule("dragged", 30*time.Minute)[0]
	p.show("owner?owner=dragged&span=6h")
	x, y := point(p, made.ID)
	drag(p, x, y, 200)
	p.there("#dialog[open] .question")
	p.confirm()
	now := w.row(made.ID)
	if by := now.DueAt.Sub(made.DueAt); now.Version != made.Version+1 || by < 30*time.Minute || by > 3*time.Hour {
		w.t.Errorf("version %d, moved by %v", now.Version, by)
	}
	p.press(escape)
	p.says("main", "pet.meal_finished")
}

func ownerDragsBack(w *world, p *tab) {
	made := w.schedule("undecided", 30*time.Minute)[0]
	p.show("owner?owner=undecided&span=6h")
	x, y := point(p, made.ID)
	drag(p, x, y, 150)
	p.there("#dialog[open] .question")
	p.press(escape)
	p.await("!document.querySelector('#dialog').open")
	pipelinetest.Await(w.t, "the point to be back at its place", func() bool {
		back, _ := point(p, made.ID)
		return back > x-1 && back < x+1
	})
	want(w.t, "version", w.row(made.ID).Version, made.Version)
}

// dragTooLate drags a task from x, which was cancelled after the page was shown, up to the question.
func dragTooLate(w *world, p *tab, owner string) (made task.Task, x float64) {
	made = w.schedule(owner, 30*time.Minute)[0]
	p.show("owner?owner=" + owner + "&span=6h")
	x, y := point(p, made.ID)
	w.change(func(tx *schedule.Tx) error {
		_, err := tx.Cancel(w.t.Context(), made.ID)
		return err
	})
	drag(p, x, y, 150)
	p.there("#dialog[open] .question")
	return made, x
}

func ownerDragsTooLate(w *world, p *tab) {
	made, x := dragTooLate(w, p, "late")
	said := p.confirm()
	p.forgive("409")
	wantHas(w.t, "what the page says", said, "cancelled")
	p.press(escape)
	p.await("!document.querySelector('#dialog').open")
	pipelinetest.Await(w.t, "the point to be back at its place", func() bool {
		back, _ := point(p, made.ID)
		return back > x-1 && back < x+1
	})
}

// htmx swaps an answer in, and settles it a moment later.
func ownerClosesEarly(w *world, p *tab) {
	dragTooLate(w, p, "hasty")
	eval[bool](p, `document.addEventListener("htmx:afterSwap", () => document.querySelector("#dialog").close(), {once: true}),
		document.addEventListener("htmx:afterSettle", () => window.settled = true, {once: true}), true`)
	p.click("#dialog-body form button")
	p.await("window.settled")
	p.forgive("409")
	want(w.t, "open dialogs", p.count("#dialog[open]"), 0)
}

func ownerMovesByKeys(w *world, p *tab) {
	made := w.schedule("keys", 30*time.Minute)[0]
	p.show("owner?owner=keys&span=6h")
	p.there("a.free")
	p.do(chromedp.Focus(chromedp.CSS("a.free")))
	for range 20 {
		p.press(right)
	}
	p.press(space)
	p.confirm()
	if now := w.row(made.ID); !now.DueAt.After(made.DueAt.Add(5 * time.Minute)) {
		w.t.Errorf("the task is due at %v, was at %v", now.DueAt, made.DueAt)
	}
}

func recurrenceIsSteered(w *world, p *tab) {
	w.recur("habits", "supper")
	state := func() int { return w.number("SELECT state FROM duetime_recurrences WHERE owner = 'habits'") }
	p.show("owner?owner=habits")
	wantHas(w.t, "the recurrence", p.text("section.recurrence"), "0 8 * * *")
	p.change(`a[href*="recurrence.pause"]`)
	want(w.t, "paused", state(), int(task.RecurrencePaused))
	p.change(`a[href*="recurrence.resume"]`)
	want(w.t, "resumed", state(), int(task.RecurrenceActive))
	p.change(`a[href*="recurrence.run"]`)
	want(w.t, "tasks made", w.number("SELECT COUNT(*) FROM duetime_tasks WHERE owner = 'habits' AND due_at < created_at + 1000"), 1)
	p.show("owner?owner=habits")
	p.change(`a[href*="recurrence.stop"]`)
	want(w.t, "stopped", state(), int(task.RecurrenceStopped))
}

func taskMoves(w *world, p *tab) {
	made := w.schedule("typed", time.Hour)[0]
	p.show("task?id=" + made.ID.String())
	p.fill("form.inline [name=at]", "+3h")
	p.press(enter)
	p.confirm()
	if by := w.row(made.ID).DueAt.Sub(made.DueAt); by < 2*time.Hour || by > 2*time.Hour+5*time.Minute {
		w.t.Errorf("moved by %v, want about 2h", by)
	}
	p.show("task?id=" + made.ID.String())
	wantHas(w.t, "the life", p.text("table.life"), "@") // who moved it
	p.fill("form.inline [name=at]", "25:99")
	p.press(enter)
	p.there("#dialog[open] .mistake")
	p.forgive("400")
}

func taskCancels(w *world, p *tab) {
	made := w.schedule("typed", time.Hour)[0]
	p.show("task?id=" + made.ID.String())
	p.change(`a[href*="task.cancel"]`)
	want(w.t, "state", w.row(made.ID).State, task.Cancelled)
	p.there(".state.cancelled")
}

func taskRetries(w *world, p *tab) {
	made := w.dead("fallen", "single fault", 2)
	p.show("task?id=" + made[0].ID.String())
	wantHas(w.t, "the error", p.text("pre.error"), "single fault")
	p.change(`a[href*="task.retry"]`)
	if now := w.row(made[0].ID); now.State == task.Dead {
		w.t.Errorf("the task is %v", now.State)
	}
	p.show("task?id=" + made[1].ID.String())
	p.change(`a[href*="task.discard"]`)
	want(w.t, "rows that are left", w.number("SELECT COUNT(*) FROM duetime_tasks WHERE id = ? AND state = 3", made[1].ID[:]), 0)
}

func deadGroups(w *world, p *tab) {
	made := w.dead("graves", "no route to the shop", 5)
	p.show("dead")
	p.says("main table", "no route to the shop #")
	p.operate(`a[href*="dead.retry"][href*="route"]`)
	for _, one := range made {
		if now := w.row(one.ID); now.State == task.Dead && now.UpdatedAt.Equal(one.UpdatedAt) {
			w.t.Errorf("task %s is still dead", one.ID)
		}
	}
	w.dead("graves", "another fault", 3)
	p.show("dead")
	p.operate(`a[href*="bulk.discard"]`)
	want(w.t, "dead tasks that are left", w.number("SELECT COUNT(*) FROM duetime_tasks WHERE state = 3 AND owner = 'graves'"), 0)
}

func healthPauses(w *world, p *tab) {
	p.show("system")
	p.there(`a[href*="queue.pause"]`)
	p.change(`a[href*="queue.pause"]`)
	want(w.t, "paused queues", w.pauses(), 1)
	p.there(".state.paused")
	p.change(`a[href*="queue.resume"]`)
	want(w.t, "paused queues", w.pauses(), 0)
}

func healthLimits(w *world, p *tab) {
	p.show("system")
	p.click(`a[href*="queue.limit"]`)
	p.fill("#dialog-body [name=rate]", "500/s")
	p.fill("#dialog-body [name=concurrency]", "40")
	p.confirm()
	p.show("system")
	p.says("main", "500/s")
	want(w.t, "limits in MySQL", w.number("SELECT COUNT(*) FROM duetime_limits WHERE queue = 'default' AND rate = '500/s' AND concurrency = 40"), 1)
	p.click(`a[href*="queue.limit"]`)
	p.fill("#dialog-body [name=rate]", "default")
	p.fill("#dialog-body [name=concurrency]", "default")
	p.confirm()
	want(w.t, "limits in MySQL", w.number("SELECT COUNT(*) FROM duetime_limits WHERE queue = 'default' AND (rate IS NOT NULL OR concurrency IS NOT NULL)"), 0)
}

func healthResigns(w *world, p *tab) {
	p.show("system")
	p.there(`a[href*="leader.resign"]`)
	before := p.text("main")
	said := p.change(`a[href*="leader.resign"]`)
	if !strings.Contains(said, "term") || before == "" {
		w.t.Errorf("it says %q", said)
	}
}

func auditTells(w *world, p *tab) {
	p.show("changes")
	p.there("table.life tbody tr td time")
	actor := strings.TrimSpace(p.text("table.life tbody tr td:nth-child(2)"))
	wantHas(w.t, "who did the last act", actor, "@")
	p.show("changes?event=" + protocol.EventCancelled)
	p.says("table.life", actor)
}

func layoutChanges(w *world, p *tab) {
	p.show("now")
	p.leave(func() {
		p.press("g")
		p.press("s")
	})
	want(w.t, "the view", eval[string](p, "document.body.dataset.view"), "system")
	p.show("tasks")
	p.press("/")
	want(w.t, "what has the focus", eval[string](p, "document.activeElement.id"), "jump")
	p.do(chromedp.SendKeys(chromedp.CSS("#jump"), "early"))
	p.leave(func() { p.press(enter) })
	p.says("h1", "early")
	p.show("system")
	p.press("?")
	p.there("#keys[open]")
	p.press(escape)
	p.await("!document.querySelector('#keys').open")
	p.click("#show-keys")
	p.there("#keys[open]")
	p.press(escape)
	p.follow("footer button[value=zh]", "system")
	p.says("nav", "系统")
	p.follow("footer button[value=dark]", "system")
	want(w.t, "theme", eval[string](p, "document.documentElement.dataset.theme"), "dark")
	p.follow("footer button[value=en]", "system")
	p.follow("footer button[value=auto]", "system")
	p.says("nav", "System")
}

func hostileTextsStay(w *world, p *tab) {
	owner := `<script>window.hostile=1</script>`
	w.dead(owner, `"><img src=x onerror="window.hostile=1"></pre><svg onload=window.hostile=1>`, 1)
	made := w.dead(owner, "</textarea></title>\u202etxt\x1b[31m", 1)[0]
	for _, at := range []string{
		"dead", "tasks?state=dead", "task?id=" + made.ID.String(), "owner?" + url.Values{"owner": {owner}}.Encode(),
		"tasks?" + url.Values{"kind": {`"><script>window.hostile=1</script>`}, "state": {"pending"}}.Encode(),
		"change?" + url.Values{"do": {"dead.retry"}, "kind": {"pet.meal_finished"}, "error": {"<img src=x onerror=window.hostile=1>"}}.Encode(),
	} {
		p.show(at)
		p.there("main h1")
		want(w.t, at+": code that ran", eval[bool](p, "'hostile' in window"), false)
		want(w.t, at+": elements that a text has made", p.count("main script, main img, pre svg"), 0)
	}
}

func figuresLive(w *world, p *tab) {
	p.show("now?span=1d")
	p.there(".nowline")
	const due = "#live .kinds td[data-label='Due']"
	before := p.text(due)
	w.schedule("fresh", 5*time.Hour)
	p.await("document.querySelector(" + quoted(due) + ").innerText !== " + quoted(before))
}

func scriptsAreNotNeeded(w *world, p *tab) {
	made := w.schedule("plain", time.Hour)[0]
	p.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	for at, part := range map[string]string{
		"now": ".nowline .curve", "tasks?owner=plain": "main tbody a.id", "owner?owner=plain": "svg.line circle",
		"task?id=" + made.ID.String(): "table.life", "dead": "h1", "system": "main table", "changes": "table.life",
	} {
		pipelinetest.Await(w.t, at+" to have figures", func() bool {
			p.open(at)
			return eval[bool](p, hasFigures)
		})
		want(w.t, at+": has "+part, p.count(part) > 0, true)
	}
	p.show("task?id=" + made.ID.String())
	p.do(chromedp.Click(chromedp.CSS(`a[href*="task.cancel"]`)))
	p.await("document.querySelector('main .question')")
	p.do(chromedp.Click(chromedp.CSS("main form button")))
	p.await("document.querySelector('main [data-outcome=done]')")
	want(w.t, "state", w.row(made.ID).State, task.Cancelled)
}

func otherSitesAreRefused(w *world, p *tab) {
	made := w.schedule("victim", time.Hour)[0]
	form := url.Values{"do": {"task.cancel"}, "id": {made.ID.String()}}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.console+"change", strings.NewReader(form.Encode()))
	pipelinetest.Must(w.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "https://elsewhere.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := http.DefaultClient.Do(req)
	pipelinetest.Must(w.t, err)
	pipelinetest.Must(w.t, res.Body.Close())
	want(w.t, "status", res.StatusCode, http.StatusForbidden)
	want(w.t, "state", w.row(made.ID).State, task.Pending)
	p.show("now")
	reached := eval[bool](p, "fetch('https://elsewhere.example/').then(() => true, () => false)")
	want(w.t, "a request of another host came through", reached, false)
	p.forgive("elsewhere.example")
}
