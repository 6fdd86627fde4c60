package browser_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/duetime/duetime/pkg/task"
)

// inSight is an expression: true if the middle of an element can be clicked on.
func inSight(selector string) string {
	return "(e => { const r = e.getBoundingClientRect(), at = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);" +
		" return e === at && r.bottom <= innerHeight })(document.querySelector(" + quoted(selector) + "))"
}

// A question about many tasks has its answer in sight. Enter gives it, or nothing, where that can't be taken back; links of the sample
// leave the question open.
func TestQuestionsAreAnswered(t *testing.T) {
	p := openPages(t, openBrowser(t))
	many := make([]time.Duration, 40)
	for i := range many {
		many[i] = time.Hour
	}
	p.due("ann", many...)
	p.do(chromedp.EmulateViewport(1280, 500))
	const answer = "#dialog-body .question .buttons button"
	ask := func(verb string) {
		t.Helper()
		p.show("tasks?owner=ann&state=pending")
		eval[string](p.tab, "document.querySelector('form.bulk [name=verb]').value = "+quoted(verb))
		p.click("form.bulk button")
		p.there("#dialog[open] .question")
	}
	operations := func() (n int) {
		t.Helper()
		all, err := p.pipeline.Console().Operations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}

	ask(string(task.VerbShift))
	p.fill("#dialog-body input[name=by]", "2h")
	p.press(enter)
	p.there("#dialog-body .question td a")
	p.await(inSight(answer))
	p.await("document.activeElement.name === 'rate'") // the question is settled a bit after it is in sight
	want(t, "ways out beside no", p.count("#dialog > form button"), 1)
	want(t, "those in sight", eval[bool](p.tab, "document.querySelector('#dialog > form').checkVisibility()"), false)
	eval[bool](p.tab, "document.querySelector('#dialog-body td a').addEventListener('click', e => e.preventDefault()), true")
	p.click("#dialog-body td a")
	want(t, "where the sample's links open", eval[string](p.tab, "document.querySelector('#dialog-body td a').target"), "_blank")
	want(t, "open questions after a click on the sample", p.count("#dialog[open] .question"), 1)
	want(t, "operations", operations(), 0)
	eval[bool](p.tab, "document.querySelector('#dialog-body [name=rate]').focus(), true") // as before the click
	p.press(enter)
	p.await("location.href.includes('operation?id=')")
	want(t, "operations", operations(), 1)

	ask(string(task.VerbCancel))
	p.there("#dialog-body .question button.grave")
	p.await(inSight(answer))
	p.await("document.activeElement.hasAttribute('data-no')")
	p.press(enter)
	p.await("!document.querySelector('#dialog').open")
	want(t, "operations", operations(), 1)
}
