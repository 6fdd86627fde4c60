package consoleweb_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// figures returns a view once it has figures.
func (p *pages) figures(at string) (page string) {
	p.t.Helper()
	pipelinetest.Await(p.t, "figures of "+at, func() bool {
		page = p.get(200, at)
		return !strings.Contains(page, "data-reading")
	})
	return page
}

func (p *pages) wantHas(at, page string, parts ...string) {
	p.t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			p.t.Errorf("%s lacks %q: %s", at, part, page)
		}
	}
}

// Where nothing has fired there is no lag: 0.0 ms would look like a good figure.
func TestNothingHasFired(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.wantHas("health without tasks", p.figures("health"), "<dt>p50</dt><dd>–</dd>", "<dt>p99</dt><dd>–</dd>", "<dt>Max</dt><dd>–</dd>",
		"Nothing has fired in the last 10 s.")
	lag := p.figures("lag?kind=" + url.QueryEscape("order.chagre"))
	p.wantHas("lag of a wrong name", lag, "<dt>p50</dt><dd>–</dd>", "<dt>p99</dt><dd>–</dd>", "<dt>Max</dt><dd>–</dd>", "<dt>Burn</dt><dd>–</dd>",
		"The kind order.chagre has fired nothing.")
	p.schedule(charge.New("ada", Charge{1}, task.In(0)))
	p.exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at")
	again, err := consoleweb.Handler(p.p.Console(), consoleweb.Config{Open: "ann@desk"}) // without readings
	pipelinetest.Must(t, err)
	p.h = again
	p.wantHas("health with a task that waits", p.figures("health"), "though tasks are due: 1, the first of them for 2 h")
}
