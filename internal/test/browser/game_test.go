package browser_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// longMeal does not end while a test looks at it. Two speed-up cards end it at once.
const longMeal = time.Hour

// TestGame plays by the game's page.
func TestGame(t *testing.T) {
	w := newWorld(t, longMeal)
	for _, part := range []struct {
		name string
		run  func(w *world, p *tab)
	}{
		{"make a pet, feed it, speed it up, feed it by a card", petIsFed},
		{"cancel, and a card for all pets of an owner", petsAreSpedUp},
		{"what happens elsewhere appears", elsewhereAppears},
		{"link to the console, and Chinese", gameLinks},
		{"names of any script and length", gameNames},
		{"an empty page says what to press", gameAdopts},
		{"the now line walks, and meals cross it", gameNowLine},
		{"lessons with a meal", gameLessons},
		{"the judge counts what the rows say", gameJudge},
		{"cards of equal height", gameCards},
	} {
		w.do(t, w.game, part.name, part.run)
	}
}

func newPet(p *tab, name, owner string) {
	p.t.Helper()
	p.fill("#make [name=name]", name)
	p.fill("#make [name=owner]", owner)
	p.click("#make button")
	p.says("#pets .pet h2", name)
}

func petIsFed(_ *world, p *tab) {
	p.show("")
	p.says("#rules", "1 h")
	newPet(p, "tom", "ann")
	p.says(".pet .clock", "hungry")
	p.click(".pet [data-act=feed]")
	p.there(".pet.eating")
	p.click(".pet [data-act=autofeed]")
	p.says(".pet .armed", "1")
	p.click(".pet [data-act=speedup]")
	p.says("#lines", "used a speed-up card")
	p.await("Number(document.querySelector('.ring').getAttribute('stroke-dashoffset')) >= 500") // half of the ring
	p.click(".pet [data-act=speedup]")
	p.says("#lines", "has eaten")
	p.says("#lines", "was fed by a card")
	p.says(".pet .armed", "0")
	p.says(".pet .eaten", "1")
	p.there(".pet.eating")
	p.click(".pet [data-act=speedup]")
	p.click(".pet [data-act=speedup]")
	p.says(".pet .eaten", "2")
	p.says(".pet .clock", "hungry")
	p.says(".pet .trace", "late · eaten once")
}

func petsAreSpedUp(w *world, p *tab) {
	p.show("?owner=bob")
	for _, name := range []string{"rex", "kit"} {
		newPet(p, name, "bob")
		p.click(".pet:not(.eating) [data-act=feed]")
		p.await("!document.querySelector('.pet:not(.eating)')")
	}
	want(w.t, "pets that eat", p.count(".pet.eating"), 2)
	p.click("#all")
	p.says("#notice", "2 of bob's meals end sooner")
	want(w.t, "speed-up cards used", w.number("SELECT COUNT(*) FROM pet_journal WHERE owner = 'bob' AND event = 'sped_up'"), 2)
	p.click("#all")
	p.await("!document.querySelector('.pet.eating')")
	p.click(".pet [data-act=feed]")
	p.there(".pet.eating")
	p.click(".pet.eating [data-act=cancel]")
	p.says("#lines", "cancelled")
	p.await("!document.querySelector('.pet.eating')")
	p.says(".pet.cancelled .trace", "the food is back")
}

func elsewhereAppears(w *world, p *tab) {
	p.show("?owner=carl")
	other := openTab(w.t, w.browser, w.game)
	other.show("?owner=carl")
	newPet(other, "moo", "carl")
	p.says("#pets .pet h2", "moo")
	other.click(".pet [data-act=feed]")
	p.there(".pet.eating")
}

func gameLinks(w *world, p *tab) {
	p.show("?owner=dora")
	newPet(p, "zoe", "dora")
	p.click(".pet [data-act=feed]")
	p.there(".pet .task a")
	link := eval[string](p, "document.querySelector('.pet .task a').href")
	if !strings.HasPrefix(link, w.console+"task?id=") {
		w.t.Errorf("the task's link is %s", link)
	}
	console := openTab(w.t, w.browser, w.console)
	console.show(strings.TrimPrefix(link, w.console))
	console.says("h1", "pet.meal_finished")
	p.click("#lang")
	p.says("#rules", "一顿饭")
	p.click("#lang")
	p.says("#rules", "A meal takes")
}

func gameNames(w *world, p *tab) {
	p.do(chromedp.EmulateViewport(390, 800))
	p.show("")
	p.fill("#make [name=name]", "小猫")
	p.fill("#make [name=owner]", "小明")
	want(w.t, "whether the form takes the names", eval[bool](p, "document.querySelector('#make').checkValidity()"), true)
	p.click("#make button")
	p.says("#pets", "小猫")
	p.fill("#make [name=name]", strings.Repeat("猫", 65))
	p.click("#make button")
	p.says("#notice.bad", "65 characters")
	p.forgive("400")
	for _, owner := range []string{strings.Repeat("x", 64), strings.Repeat("猫", 21)} {
		p.show("?" + url.Values{"owner": {owner}}.Encode())
		p.says("#all", owner)
		newPet(p, strings.Repeat("W", 64), owner)
		p.click(".pet [data-act=feed]")
		p.there(".pet.eating")
		p.click("[data-lesson=autofeed]")
		p.says("#told", "A card is armed")
		want(w.t, "width of the page", eval[int](p, "document.documentElement.scrollWidth"), 390)
		p.click("#lang")
		p.says("#judge", "核对：丢失 0 · 重复 0 · 过早 0")
		want(w.t, "width of the page in Chinese", eval[int](p, "document.documentElement.scrollWidth"), 390)
		p.click("#lang")
	}
}

// The first button adopts three pets that eat.
func gameAdopts(w *world, p *tab) {
	p.show("?owner=empty")
	p.says("#none", "Press the button")
	want(w.t, "first button", eval[string](p, "[...document.querySelectorAll('main button')].find(b => b.offsetParent).id"), "adopt")
	p.click("#adopt")
	p.await("document.querySelectorAll('.pet.eating').length === 3 && document.querySelectorAll('#now .future').length === 3")
	want(w.t, "pets of the owner", w.number("SELECT COUNT(*) FROM pets WHERE owner = 'empty'"), 3)
	p.says("#told", "Three pets eat")
}

func gameNowLine(w *world, p *tab) {
	p.show("?owner=line")
	newPet(p, "tom", "line")
	p.click(".pet [data-act=feed]")
	p.there("#now .future.it")
	eval[bool](p, "(window.startedAt = document.querySelector('.walker').dataset.x + document.querySelector('.walker').getAttribute('transform')) && true")
	p.await("document.querySelector('.walker').dataset.x + document.querySelector('.walker').getAttribute('transform') !== window.startedAt")
	task := eval[string](p, "document.querySelector('#now .future').dataset.task")
	p.click(".pet [data-act=speedup]")
	p.says(".pet .task", "v2")
	p.click(".pet [data-act=speedup]")
	dot := "document.querySelector('#now [data-task=\"" + task + "\"]')"
	p.await("(" + dot + " || {dataset: {}, classList: {contains: () => true}}).classList.contains('future') === false")
	right := "document.querySelector('#now [data-task=\"" + task + "\"]').transform.baseVal[0].matrix.e <= Number(document.querySelector('.walker').dataset.x) + 1"
	want(w.t, "whether the meal is left of now", eval[bool](p, right), true)
}

func gameLessons(w *world, p *tab) {
	p.show("?owner=lesson")
	newPet(p, "tom", "lesson")
	p.says("#it", "Feed a pet")
	want(w.t, "lessons that nobody offers", eval[bool](p, "document.querySelector('[data-lesson=kill]').hidden && document.querySelector('[data-lesson=flush]').hidden"), true)
	p.click(".pet [data-act=feed]")
	p.says("#it", "tom")
	p.click("[data-lesson=autofeed]")
	p.says("#told", "A card is armed")
	p.says(".pet .armed", "1")
	p.click("[data-lesson=speedup]")
	p.says("#told", "ends 30 min sooner: the same task, now version 2")
	p.click("[data-lesson=cancel]")
	p.says("#told", "the food is back")
	p.there(".pet.cancelled")
	p.click(".pet [data-act=feed]")
	p.there(".pet.eating")
	p.click("[data-lesson=speedup]")
	p.says("#told", "version 2")
	p.click("[data-lesson=speedup]")
	p.says("#told", "eaten once")
}

func gameJudge(w *world, p *tab) {
	p.show("?owner=judged")
	p.says("#judge", "Judged: 0 lost · 0 doubled · 0 early")
	w.exec("INSERT INTO pet_journal (pet_id, owner, event, task_id, version, due_at_ms, at_ms) VALUES (1, 'judged', 'meal_finished', ?, 1, 2, 1)", task.NewID().String())
	p.says("#judge.bad", "1 early")
	w.exec("DELETE FROM pet_journal WHERE owner = 'judged'")
	p.says("#judge:not(.bad)", "0 early")
}

func gameCards(w *world, p *tab) {
	p.show("?owner=cards")
	for _, name := range []string{"a", strings.Repeat("long ", 12) + "name"} {
		newPet(p, name, "cards")
	}
	p.click(".pet [data-act=feed]")
	p.there(".pet.eating")
	for _, width := range []int64{390, 1280} {
		p.do(chromedp.EmulateViewport(width, 800))
		heights := "new Set([...document.querySelectorAll('.pet')].map(e => Math.round(e.getBoundingClientRect().height))).size"
		want(w.t, "heights of cards", eval[int](p, heights), 1)
	}
}

// While no worker is alive, meals wait and their pets look at the clock. A worker that the page kills is a process that is
// over, and its successor ends each meal once.
func TestGameKillsTheWorker(t *testing.T) {
	w := newWorld(t, longMeal)
	succeed := w.mortal()
	p := openTab(t, w.browser, w.game)
	p.show("?owner=ann")
	newPet(p, "tom", "ann")
	p.click(".pet [data-act=feed]")
	p.there(".pet.eating")
	p.says("#workers .alive", "worker-1 works")
	p.click("[data-lesson=kill]")
	p.says("#told", "worker-1 died, and no worker is left")
	p.says("#workers .dead", "worker-1 is dead")
	pipelinetest.Await(t, "the worker's end", func() bool { return !w.worker.Running() })
	p.click("[data-lesson=speedup]")
	p.says(".pet .task", "v2")
	p.click("[data-lesson=speedup]")
	p.there(".pet.waits")
	p.says(".pet .clock", "late")
	want(t, "faces that look at the clock", p.count(".pet.waits .waiting"), 1)
	want(t, "whether the pet smiles", eval[string](p, "getComputedStyle(document.querySelector('.pet .happy')).display"), "none")
	p.there("#now .late")
	succeed()
	p.says("#told", "worker-1 works again")
	p.await("!document.querySelector('.pet.waits')")
	p.says(".pet .trace", "eaten once")
	p.click("[data-lesson=flush]")
	p.says("#told", "Redis forgot")
	want(t, "meals eaten twice", w.number("SELECT COUNT(*) FROM (SELECT task_id FROM pet_journal WHERE event = 'meal_finished' GROUP BY task_id HAVING COUNT(*) > 1) AS twice"), 0)
}
