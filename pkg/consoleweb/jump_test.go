package consoleweb_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

// The box at the top knows a task, an owner, a kind and a queue, and takes anything else for an owner.
func TestBoxAtTheTop(t *testing.T) {
	t.Parallel()
	p := open(t)
	made := p.schedule(charge.New("order.charge2", Charge{1}, task.In(time.Hour)))
	ended := p.schedule(charge.New("eve", Charge{1}, task.In(time.Hour)))
	_, err := p.p.Cancel(t.Context(), ended.ID)
	pipelinetest.Must(t, err)
	_, err = p.p.BlockOwner(t.Context(), "mallory")
	pipelinetest.Must(t, err)
	_, err = p.p.Recur(t.Context(), "later", recur.Every(time.Hour), charge.Recurring("tim", Charge{1}), recur.Policy{})
	pipelinetest.Must(t, err)
	p.works() // its worker handles order.other
	pipelinetest.Await(t, "the worker's report", func() bool {
		alive, err := p.p.Console().Processes(t.Context())
		return err == nil && len(alive) == 1
	})
	absent := task.NewID().String()
	for text, want := range map[string]string{
		made.ID.String(): "task?id=" + made.ID.String(), " " + ended.ID.String() + " ": "task?id=" + ended.ID.String(),
		"order.charge2": "owner?owner=order.charge2", "eve": "owner?owner=eve", "mallory": "owner?owner=mallory", "tim": "owner?owner=tim",
		"payments": "tasks?queue=payments", "order.charge": "tasks?kind=order.charge", "order.other": "tasks?kind=order.other",
		"nobody": "owner?owner=nobody", "": "owner", absent: "owner?owner=" + absent,
	} {
		w := p.do(request(http.MethodGet, "jump?q="+url.QueryEscape(text), nil))
		if got := w.Header().Get("Location"); got != want || w.Code != http.StatusSeeOther {
			t.Errorf("%q leads to %q with %d, want %q", text, got, w.Code, want)
		}
	}
}

// The addresses of earlier views lead to where their figures are, with what they asked for.
func TestPageOldAddresses(t *testing.T) {
	t.Parallel()
	p := open(t)
	for at, want := range map[string]string{
		"ahead?span=6h&by=queue": "now?span=6h&by=queue", "lag?kind=order.charge": "now?kind=order.charge", "health": "system",
		"search?owner=ada": "tasks?owner=ada", "operations": "changes", "audit?actor=ann": "changes?actor=ann",
	} {
		w := p.do(request(http.MethodGet, at, nil))
		if got := w.Header().Get("Location"); got != want || w.Code != http.StatusSeeOther {
			t.Errorf("%s leads to %q with %d, want %q", at, got, w.Code, want)
		}
		p.get(200, want)
	}
}
