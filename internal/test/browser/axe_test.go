package browser_test

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe.min.js
var axe string

// violation is what axe found.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// TestAccessible wants no serious fault by axe in any view, in both themes and at the width of a phone.
func TestAccessible(t *testing.T) {
	w := newWorld(t, longMeal)
	w.schedule("ann", 20*time.Minute, time.Hour)
	w.recur("ann", "breakfast")
	life := w.schedule("bob", time.Hour)[0]
	w.dead("carl", "no route", 3)
	p := openTab(t, w.browser, w.console)
	game := openTab(t, w.browser, w.game)
	game.show("")
	newPet(game, "tom", "ann")
	game.click(".pet [data-act=feed]")
	newPet(game, "kit", "ann") // stays hungry
	const wrong = "tasks?q=colour%3Ared"
	views := map[*tab][]string{
		p: {
			"now", "now?kind=pet.meal_finished", "tasks", "tasks?owner=ann&state=pending", wrong, "owner?owner=ann", "dead", "dead?kind=pet.meal_finished&any=1&since=-1h",
			"system", "changes",
			"task?id=" + life.ID.String(), "change?do=task.cancel&id=" + life.ID.String(), "change?do=queue.limit&queue=default", "nowhere",
		},
		game: {"", "?owner=ann"},
	}
	for page, list := range views {
		for _, theme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 390} {
				page.do(chromedp.EmulateViewport(width, 800), command(emulation.SetEmulatedMedia,
					emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}))
				for _, at := range list {
					name := fmt.Sprintf("%s %s at %d px", at, theme, width)
					page.show(at)
					switch at {
					case "nowhere":
						page.forgive("404")
					case wrong:
						page.forgive("400")
					}
					page.wantAccessible(name, width)
				}
			}
		}
	}
}

// wantAccessible wants no serious fault by axe in what the tab shows, and nothing that is wider than the tab.
func (p *tab) wantAccessible(name string, width int64) {
	p.t.Helper()
	if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
		p.t.Errorf("%s: the page is %d px wide", name, wide)
	}
	// While axe works, which takes long on a busy machine, figures that come anew would be late.
	eval[int](p, axe+";document.addEventListener('htmx:beforeRequest', e => e.preventDefault());0")
	for _, v := range eval[[]violation](p, `axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}}).then(r => r.violations)`) {
		if v.Impact == "serious" || v.Impact == "critical" {
			p.t.Errorf("%s: %s (%s): %s: %s", name, v.ID, v.Impact, v.Help, v.Nodes[0].HTML+" "+v.Nodes[0].FailureSummary)
		}
	}
}
