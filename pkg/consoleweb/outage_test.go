package consoleweb_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/consoleweb"
	"github.com/duetime/duetime/pkg/embedded"
)

// openOwn is open on a MySQL of the test's own.
func openOwn(t *testing.T) (*pages, *pipelinetest.MySQLServer) {
	t.Helper()
	server, log := pipelinetest.OwnMySQL(t), slog.New(slog.DiscardHandler)
	p, err := embedded.OpenMySQL(t.Context(), server.NewSchema(t), embedded.Config{Queues: []string{"payments"}, Logger: log})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, p.Close(context.Background())) })
	h, age, err := consoleweb.HandlerWithReadings(p.Console(), consoleweb.Config{Open: "ann@desk", Logger: log})
	pipelinetest.Must(t, err)
	t.Cleanup(func() { age(0, 0) }) // a reading that waited for a server in vain is followed by a pause nine times as long
	return &pages{t, p, h}, server
}

const awayText = "The database does not answer."

// While MySQL hangs, or is gone, each view says so that has no figures of the last second. None calls it a slow search, and none says that there is nothing.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	p, server := openOwn(t)
	p.figures("system")
	p.figures("now")
	for name, stop := range map[string]func() error{"hangs": server.Freeze, "is gone": server.Kill} {
		pipelinetest.Must(t, stop())
		var views sync.WaitGroup
		for _, at := range []string{
			"tasks?kind=order.charge", "tasks?owner=ada", "changes", "system", "owner?owner=ada", "task?id=01890a5d-ac96-774b-bcce-b302099a8057",
			"change?do=bulk.cancel&kind=order.charge",
		} {
			views.Go(func() {
				w := p.do(request(http.MethodGet, at, nil))
				page := w.Body.String()
				if w.Code != http.StatusServiceUnavailable || !strings.Contains(page, awayText) {
					t.Errorf("MySQL %s: %s: status %d, and no %q in %s", name, at, w.Code, awayText, page)
				}
				for _, wrong := range []string{"No task matches", "No operator did", "took too long", "deadline exceeded"} {
					if strings.Contains(page, wrong) {
						t.Errorf("MySQL %s: %s says %q", name, at, wrong)
					}
				}
			})
		}
		views.Go(func() {
			pipelinetest.Await(t, "the landing page to say so", func() bool {
				page := p.do(request(http.MethodGet, "now?part=live", nil)).Body.String()
				return strings.Contains(page, awayText) && !strings.Contains(page, "On time")
			})
		})
		views.Wait()
		if name == "hangs" {
			pipelinetest.Must(t, server.Thaw())
		} else {
			pipelinetest.Must(t, server.Start())
		}
		pipelinetest.Await(t, "MySQL to be back", func() bool {
			return p.do(request(http.MethodGet, "tasks?owner=ada", nil)).Code == http.StatusOK
		})
	}
}
