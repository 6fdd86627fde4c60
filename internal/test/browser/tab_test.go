package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestMain(m *testing.M) { os.Exit(pipelinetest.Main(m)) }

// patience is how long a tab waits for what a page should show.
const patience = time.Minute

// openBrowser starts Chromium.
func openBrowser(t *testing.T, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	options = append(slices.Concat(chromedp.DefaultExecAllocatorOptions[:], options), chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.WindowSize(1280, 900), chromedp.Flag("lang", "en-US"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	pipelinetest.Must(t, chromedp.Do(ctx))
	return ctx
}

// tab is a page that is looked at. It collects what a page must not do: errors on its console, and requests of other hosts.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
}

// openTab opens an empty tab for pages of one origin, in UTC and at the width of a desk.
func openTab(t *testing.T, browser context.Context, base string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	p := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Error(problem)
		}
	})
	// The tab lives as long as the context of its first step, which so must not have a deadline.
	pipelinetest.Must(t, chromedp.Do(ctx))
	pipelinetest.Must(t, chromedp.Listen(ctx, p.watch))
	p.do(command(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}))
	return p
}

func (p *tab) watch(event any) {
	switch e := event.(type) {
	case *cdpruntime.EventExceptionThrown:
		p.problem("exception: " + e.ExceptionDetails.Text)
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == cdpruntime.ConsoleAPICalledTypeError || e.Type == cdpruntime.ConsoleAPICalledTypeWarning {
			said, _ := json.Marshal(e.Args)
			p.problem("console: " + string(said))
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError || e.Entry.Level == cdplog.EntryLevelWarning {
			p.problem(fmt.Sprintf("%s: %s (%s)", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		if at := e.Request.URL; !strings.HasPrefix(at, p.base) && !strings.HasPrefix(at, "data:") && at != "about:blank" {
			p.problem("a request of another host: " + at)
		}
	}
}

func (p *tab) problem(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// forgive forgets problems that a case means to have, such as an answer 409.
func (p *tab) forgive(part string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.problems[:0]
	for _, problem := range p.problems {
		if !strings.Contains(problem, part) {
			left = append(left, problem)
		}
	}
	if len(left) == len(p.problems) {
		p.t.Errorf("no problem says %q: %v", part, left)
	}
	p.problems = left
}

// command is a step by a command of the browser.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// do takes steps, which must come to an end.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	pipelinetest.Must(p.t, chromedp.Do(ctx, steps...))
}

// use takes steps with an element. Figures that are read again may replace it between the step that finds it and the one that uses
// it: the browser then has done nothing, and the steps are taken with the new one.
func (p *tab) use(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		err := chromedp.Do(ctx, steps...)
		if refused, ok := errors.AsType[*cdproto.Error](err); !ok || refused.Code != replaced || ctx.Err() != nil {
			pipelinetest.Must(p.t, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// replaced is the code of the browser's error for an element that is no longer in the page.
const replaced = -32000

// show opens an address below the base, and waits for its figures.
func (p *tab) show(at string) {
	p.t.Helper()
	p.open(at)
	p.await(hasFigures)
}

// open opens an address below the base.
func (p *tab) open(at string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + at))
}

// hasFigures is an expression: false in a view that waits for its first reading. The view is shown without figures, which its
// script brings.
const hasFigures = "!document.querySelector('[data-reading]')"

// eval returns the value of an expression in the page, or of its promise.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, awaitPromise))
	pipelinetest.Must(p.t, err)
	return value
}

// quoted is a text as a script writes it.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can be written
	}
	return string(b)
}

// await waits until an expression is true.
func (p *tab) await(expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")) // fails while the page changes to another
		cancel()
		if holds {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s: waited in vain for %s (%v); the page says: %s", p.at(), expression, err, p.text("body"))
		}
	}
}

func (p *tab) at() string { return eval[string](p, "location.href") }

func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, "(document.querySelector("+quoted(selector)+") || {innerText: ''}).innerText")
}

func (p *tab) count(selector string) int {
	p.t.Helper()
	return eval[int](p, "document.querySelectorAll("+quoted(selector)+").length")
}

// says waits until an element has the text.
func (p *tab) says(selector, text string) {
	p.t.Helper()
	p.await("(document.querySelector(" + quoted(selector) + ") || {innerText: ''}).innerText.includes(" + quoted(text) + ")")
}

// there waits for an element.
func (p *tab) there(selector string) {
	p.t.Helper()
	p.await("document.querySelector(" + quoted(selector) + ")")
}

// click clicks on an element as a mouse does.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.there(selector)
	p.use(chromedp.ScrollIntoView(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// fill types into a field, in place of what is in it.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.there(selector)
	eval[bool](p, "document.querySelector("+quoted(selector)+").select() || true")
	p.use(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// press presses keys, on whatever has the focus.
func (p *tab) press(keys string) { p.t.Helper(); p.do(chromedp.KeyEvent(keys)) }

const (
	enter  = kb.Enter
	escape = kb.Escape
	right  = kb.ArrowRight
	space  = " "
)

// follow clicks on what leads to another page, and waits for the page, whose address has the part.
func (p *tab) follow(selector, part string) {
	p.t.Helper()
	p.there(selector)
	p.leave(func() { p.click(selector) })
	p.await("location.href.includes(" + quoted(part) + ")")
}

// leave does what makes the browser read another page, or the same one anew, and waits for it and for its figures.
func (p *tab) leave(do func()) {
	p.t.Helper()
	eval[bool](p, "window.before = true")
	do()
	p.await("!window.before && document.readyState === 'complete' && " + hasFigures)
}

// confirm answers the question in the dialog, and returns what was done.
func (p *tab) confirm() string {
	p.t.Helper()
	p.there("#dialog[open] .question")
	p.click("#dialog-body form button")
	p.await("document.querySelector('#dialog-body [data-outcome=done], #dialog-body .mistake')")
	return p.text("#dialog-body")
}

// change clicks on a button that asks, says yes, and closes what was said.
func (p *tab) change(selector string) string {
	p.t.Helper()
	p.click(selector)
	said := p.confirm()
	p.leave(func() { p.press(escape) })
	return said
}

// operate is change for many tasks: it waits for the end of the operation.
func (p *tab) operate(selector string) {
	p.t.Helper()
	p.click(selector)
	p.there("#dialog[open] .question")
	p.click("#dialog-body form button")
	p.await("location.href.includes('operation?id=') && document.querySelector('.state.done')")
}

// awaitPromise makes an evaluation wait for the value of a promise.
func awaitPromise(p *cdpruntime.EvaluateParams) { p.AwaitPromise = new(true) }
