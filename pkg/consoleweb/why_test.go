package consoleweb_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// Now begins with why tasks are late, and the page of a task says what it waits for, in the user's language.
func TestPagesSayWhy(t *testing.T) {
	t.Parallel()
	p := open(t)
	later, late := p.schedule(charge.New("ada", Charge{1}, task.In(2*time.Hour))), p.schedule(charge.New("bob", Charge{2}, task.In(0)))
	p.exec("UPDATE duetime_tasks SET due_at = due_at - 7200000, run_at = due_at WHERE owner = 'bob'")
	in := func(lang, at string) string {
		r := request(http.MethodGet, at, nil)
		r.AddCookie(&http.Cookie{Name: "duetime_lang", Value: lang})
		return p.do(r).Body.String()
	}
	for _, c := range []struct{ at, lang, says string }{
		{"now", "en", "<h2 class=\"why warn verdict\">No living worker runs queue payments.</h2>\n<p>Late tasks: 1, the oldest by 2 h. Start a worker of the queue."},
		{"now", "zh", "队列 payments 没有存活的工作进程。</h2>\n<p>迟到任务 1 个，最早的已迟到 2 小时。"},
		{"task?id=" + later.ID.String(), "en", "Due in "},
		{"task?id=" + later.ID.String(), "zh", "后到期。"},
		{"task?id=" + late.ID.String(), "en", "No living worker runs queue payments."},
	} {
		pipelinetest.Await(t, c.at+" to say why", func() bool { return strings.Contains(in(c.lang, c.at), "class=\"why") })
		p.wantHas(c.at, in(c.lang, c.at), c.says)
	}
}
