package browser_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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
	p.says("#lines", "got a speed-up card")
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
	p.says(".pet .task", " ms")
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
}

func gameNames(w *world, p *tab) {
	p.do(chromedp.EmulateViewport(390, 800))
	p.show("")
	p.fill("#make [name=name]", "小猫")
	p.fill("#make [name=owner]", "小明")
	want(w.t, "whether the form takes the names", eval[bool](p, "document.querySelector('#make').checkValidity()"), true)
	p.click("#make button")
	p.says("#pets", "小猫")
	for _, owner := range []string{strings.Repeat("x", 64), strings.Repeat("猫", 21)} {
		p.show("?" + url.Values{"owner": {owner}}.Encode())
		p.says("#all", owner)
		want(w.t, "width of the page", eval[int](p, "document.documentElement.scrollWidth"), 390)
	}
}
