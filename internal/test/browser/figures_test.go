package browser_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/embedded"
	"github.com/duetime/duetime/pkg/task"
)

type note struct {
	N int `json:"n"`
}

var noted = task.NewKind[note]("note.write")

// pages are the console's pages of a pipeline without a worker, on a server of the test's own.
type pages struct {
	*tab

	pipeline *embedded.Pipeline
	server   *httptest.Server
	fails    atomic.Int32 // status of all answers; 0: those of the pages
}

func openPages(t *testing.T, browser context.Context) *pages {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	pipeline, err := embedded.OpenMySQL(t.Context(), worldtest.Schema(t), embedded.Config{Logger: log})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, pipeline.Close(context.Background())) })
	h, err := consoleweb.Handler(pipeline.Console(), consoleweb.Config{Open: "ann@desk", Logger: log})
	pipelinetest.Must(t, err)
	p := &pages{pipeline: pipeline}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(p.fails.Load()); status != 0 {
			http.Error(w, "the proxy has no answer", status)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	p.tab = openTab(t, browser, p.server.URL+"/")
	return p
}

// due makes tasks that are due after a time.
func (p *pages) due(owner string, in ...time.Duration) (made []task.Task) {
	p.t.Helper()
	for i, d := range in {
		one, err := p.pipeline.Schedule(p.t.Context(), noted.New(owner, note{i}, task.In(d)))
		pipelinetest.Must(p.t, err)
		made = append(made, one)
	}
	return made
}

func (p *pages) exec(statement string, args ...any) {
	p.t.Helper()
	_, err := p.pipeline.DB().ExecContext(p.t.Context(), statement, args...)
	pipelinetest.Must(p.t, err)
}

// look has the live part of the view be read now, not at its time.
func (p *pages) look() {
	p.t.Helper()
	eval[bool](p.tab, `htmx.ajax("GET", document.querySelector("#live").getAttribute("hx-get"), "#live").then(() => true, () => true)`)
}

// A view whose console is gone, or is answered for by a proxy, says so, and how old its figures are. The next answer ends that.
func TestUnansweredFigures(t *testing.T) {
	p := openPages(t, openBrowser(t))
	p.show("system")
	want(t, "a warning beside new figures", p.count("#unanswered:not([hidden])"), 0)
	p.fails.Store(http.StatusBadGateway)
	p.look()
	p.says("#unanswered", "The console does not answer. These figures are as of")
	p.there("#live.old .tiles")
	p.forgive("502")
	p.fails.Store(0)
	p.look()
	p.await("document.querySelector('#unanswered').hidden && !document.querySelector('#live.old')")
	p.server.Close()
	p.look()
	p.says("#unanswered", "The console does not answer.")
	age := p.text("#unanswered [data-at]")
	p.await("document.querySelector('#unanswered [data-at]').innerText !== " + quoted(age)) // the age goes on
	for _, problem := range []string{"htmx:sendError", "htmx:afterRequest", "net::ERR"} {
		p.forgive(problem)
	}
}

// A search among more tasks of another kind than one page can read goes on by itself, and does not say that nothing matches.
func TestSearchGoesOnByItself(t *testing.T) {
	p := openPages(t, openBrowser(t))
	sought := p.due("ann", time.Hour)[0]
	p.exec("UPDATE duetime_tasks SET kind = 'note.sought'")
	p.due("bob", 0)
	const columns = "kind, owner, queue, payload, state, due_at, run_at, attempt, max_attempts, version, shard, created_at, updated_at"
	const double = "INSERT INTO duetime_tasks (id, " + columns + ") SELECT UNHEX(REPLACE(UUID(), '-', '')), " + columns +
		" FROM duetime_tasks WHERE owner = 'bob'"
	for range 15 { // 32,768 tasks: more than three pages read
		p.exec(double)
	}
	p.open("tasks?kind=note.sought")
	p.says("main", "The search goes on.")
	want(t, "what it says of tasks that it has not read", strings.Contains(p.text("main"), "No task matches"), false)
	p.says("#found table", sought.ID.String())
	p.open("tasks?kind=note.none")
	p.says("#found", "No task matches.")
}

// late makes tasks that ended in the last minutes, each so long after its time.
func (p *pages) late(lag time.Duration, n int) {
	p.t.Helper()
	p.due("late", make([]time.Duration, n)...)
	p.exec(`UPDATE duetime_tasks SET state = 1, version = 2, finished_at = created_at - 60000, updated_at = finished_at,
		due_at = finished_at - ?, run_at = due_at, created_at = due_at - 1000 WHERE owner = 'late' AND state = 0`, lag.Milliseconds())
}

// The marks of a lag of minutes have their units, and stand wholly beside the picture.
func TestLagScaleIsWhole(t *testing.T) {
	p := openPages(t, openBrowser(t))
	p.late(150*time.Second, 3)
	for _, width := range []int64{1280, 390} {
		p.do(chromedp.EmulateViewport(width, 800))
		p.show("now?span=15m")
		for _, mark := range eval[[]struct {
			Text string
			Left float64
		}](p.tab, `[...document.querySelectorAll(".nowline .scale:first-child text")].map(e => ({text: e.textContent, left: e.getBoundingClientRect().left}))`) {
			if mark.Left < 0 || !strings.Contains(mark.Text, " ") {
				t.Errorf("at %d px: %q begins at %.0f px", width, mark.Text, mark.Left)
			}
		}
		p.says(".nowline", "10 min")
	}
}

// New figures take away neither the focus, nor what is selected, nor how far a table is scrolled.
func TestNewFiguresLeaveTheReadersPlace(t *testing.T) {
	p := openPages(t, openBrowser(t))
	p.due("ann", 10*time.Minute, 20*time.Minute, 30*time.Minute)
	p.late(time.Second, 5)
	p.do(chromedp.EmulateViewport(390, 800))
	renewed := func() {
		t.Helper()
		eval[bool](p.tab, "document.querySelector('#live').firstElementChild.before(document.createElement('hr')), true")
		p.look()
		p.await("!document.querySelector('#live > hr')")
	}
	p.show("system")
	const focused = "document.activeElement.getAttribute('href')"
	link := eval[string](p.tab, "(a => (a.focus(), a.getAttribute('href')))(document.querySelectorAll('#live td a')[1])")
	eval[int](p.tab, "document.querySelector('#live .wide').scrollLeft = 60")
	renewed()
	want(t, "what has the focus", eval[string](p.tab, focused), link)
	want(t, "how far the table is scrolled", eval[int](p.tab, "document.querySelector('#live .wide').scrollLeft"), 60)

	eval[bool](p.tab, "getSelection().selectAllChildren(document.querySelector('#live .tiles')), true")
	selected := eval[string](p.tab, "getSelection().toString()")
	p.look()
	want(t, "what is selected", eval[string](p.tab, "getSelection().toString()"), selected)
	eval[bool](p.tab, "getSelection().removeAllRanges(), true")
	renewed()
}

// Task, Owner and Search don't stand still: times go on, and what happens elsewhere appears.
func TestViewsGoOn(t *testing.T) {
	p := openPages(t, openBrowser(t))
	made := p.due("ann", 8*time.Minute)[0]
	goesOn := func(selector string) {
		t.Helper()
		before := p.text(selector)
		p.await("document.querySelector(" + quoted(selector) + ").innerText !== " + quoted(before))
	}
	p.show("task?id=" + made.ID.String())
	goesOn("#live [data-read]")
	p.fill("form.inline [name=at]", "+3h")
	p.look()
	want(t, "what was typed", eval[string](p.tab, "document.querySelector('form.inline [name=at]').value"), "+3h")
	p.show("tasks?kind=note.write")
	want(t, "height of a row", eval[int](p.tab, "document.querySelector('.rows tbody tr').offsetHeight"), 28)
	goesOn("#found [data-read]")
	p.show("owner?owner=ann&span=1h")
	goesOn("#live td [data-at]")
	more := p.due("ann", 20*time.Minute)[0]
	p.there(`a.free[data-id="` + more.ID.String() + `"]`)
	x, y := point(p.tab, more.ID)
	drag(p.tab, x, y, 100)
	p.there("#dialog[open] .question")
	p.press(escape)
	p.await("!document.querySelector('#dialog').open && !document.querySelector('.moving')")
	p.do(chromedp.Focus(chromedp.CSS("a.free")))
	p.press(right)
	moved := eval[string](p.tab, "document.querySelector('.moving circle').getAttribute('cx')")
	p.look()
	want(t, "the place of a point that was moved", eval[string](p.tab, "document.querySelector('.moving circle').getAttribute('cx')"), moved)
	p.show("task?id=" + made.ID.String())
	_, err := p.pipeline.Cancel(t.Context(), made.ID)
	pipelinetest.Must(t, err)
	p.there(".state.cancelled")
	want(t, "buttons of a task that has ended", p.count("article .button"), 0)
	p.show("tasks?owner=ann")
	_, err = p.pipeline.Cancel(t.Context(), more.ID)
	pipelinetest.Must(t, err)
	p.await("document.querySelectorAll('#found .state.cancelled').length === 2")
}

// On a phone, and at twice the size on a desk, the whole picture can be seen, and now stands in its middle.
func TestNowIsInSight(t *testing.T) {
	p := openPages(t, openBrowser(t))
	p.due("ann", time.Minute, 10*time.Minute, 59*time.Minute)
	p.late(time.Second, 5)
	p.exec("UPDATE duetime_tasks SET kind = 'a.kind.whose.name.is.as.long.as.a.name.of.a.kind.may.be.so.it.is' WHERE owner = 'ann'")
	for _, width := range []int64{390, 640} {
		p.do(chromedp.EmulateViewport(width, 800))
		for _, span := range []string{"15m", "1h", "6h", "1d"} {
			p.show("now?span=" + span)
			place := func(selector string) (left, right float64) {
				at := eval[map[string]float64](p.tab, "(r => ({left: r.left, right: r.right}))(document.querySelector("+quoted(selector)+").getBoundingClientRect())")
				return at["left"], at["right"]
			}
			for _, selector := range []string{".nowline", ".nowline .was", ".nowline .will", ".nowline .due"} {
				if left, right := place(selector); left < 0 || right > float64(width) || right-left < 20 {
					t.Errorf("%s at %d px: %s reaches from %.0f to %.0f", span, width, selector, left, right)
				}
			}
			line, _ := place(".nowline .at")
			_, was := place(".nowline .was")
			if line < was-1 || line > was+4 {
				t.Errorf("%s at %d px: now is at %.0f, and what was ends at %.0f", span, width, line, was)
			}
		}
	}
}

// An owner's line is as wide as the page. Its names and points don't cover each other, and a drag moves a task to the time that
// it showed.
func TestOwnersLineIsAsWideAsThePage(t *testing.T) {
	p := openPages(t, openBrowser(t))
	p.due("bob", 30*time.Minute, time.Hour, 90*time.Minute, 2*time.Hour)
	for width, owner := range map[int64]string{390: "ann", 1440: "eve"} {
		p.do(chromedp.EmulateViewport(width, 800))
		for _, span := range []string{"1h", "6h", "1d", "7d", "30d"} {
			p.show("owner?owner=bob&span=" + span)
			if line := eval[float64](p.tab, "document.querySelector('svg.line').getBoundingClientRect().width"); line < float64(width)-80 {
				t.Errorf("%s at %d px: the line is %.0f px wide", span, width, line)
			}
			want(t, span+": the page scrolls sideways", eval[bool](p.tab, "document.documentElement.scrollWidth > innerWidth || document.querySelector('.wide svg.line') !== null"), false)
			want(t, span+": a name covers the one before, or is cut", eval[bool](p.tab, `[...document.querySelectorAll("svg.line .mark")].map(e => e.getBoundingClientRect())
				.some((r, i, all) => r.left < 0 || r.right > innerWidth || i > 0 && r.left < all[i - 1].right)`), false)
			want(t, span+": a point covers another", eval[bool](p.tab, `[...document.querySelectorAll("svg.line circle")].map(e => e.getBoundingClientRect())
				.some((r, i, all) => all.slice(0, i).some(q => Math.hypot(r.x - q.x, r.y - q.y) < 12))`), false)
		}
		made := p.due(owner, 20*time.Minute)[0]
		p.show("owner?owner=" + owner + "&span=1h")
		pixel := time.Duration(float64(time.Hour) / eval[float64](p.tab, "document.querySelector('svg.line').getBoundingClientRect().width"))
		x, y := point(p.tab, made.ID)
		eval[string](p.tab, `document.querySelector("#drag").dataset.zone = "Asia/Shanghai"`) // not the browser's
		drag(p.tab, x, y, 60)
		p.there("#dialog[open] .question")
		shown, err := time.ParseInLocation(time.DateTime, eval[string](p.tab, `document.querySelector("#drag").textContent`), time.FixedZone("", 8*60*60))
		pipelinetest.Must(t, err)
		p.confirm()
		var due int64
		pipelinetest.Must(t, p.pipeline.DB().GetContext(t.Context(), &due, "SELECT due_at FROM duetime_tasks WHERE id = ?", made.ID[:]))
		want(t, "due time of a task that was dragged", due, shown.UnixMilli())
		if off := time.UnixMilli(due).Sub(made.DueAt) - 60*pixel; off.Abs() > pixel+time.Second {
			t.Errorf("at %d px: a drag of 60 px is off by %v, and a pixel is %v", width, off, pixel)
		}
	}
}

// The line of now walks on while the figures stand, but not for those who want no motion.
func TestNowWalks(t *testing.T) {
	p := openPages(t, openBrowser(t))
	const place = "document.querySelector('.nowline .at').style.transform"
	p.show("now?span=15m")
	p.await(place)
	before := eval[string](p.tab, place)
	p.await(place + " && " + place + " !== " + quoted(before))
	p.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}},
	}))
	p.await("!" + place)
	const marked = `(at => { const pill = at.firstElementChild.getBoundingClientRect(), line = at.getBoundingClientRect().left;
		return pill.left < line && line < pill.right })(document.querySelector(".nowline .at"))`
	want(t, "its time stands at the line that stands still", eval[bool](p.tab, marked), true)
}
