package consoleweb_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// A search without an owner and the mass change below it mean the same window: that of the due time, also of tasks whose attempts
// have failed.
func TestWindowIsOfTheDueTime(t *testing.T) {
	t.Parallel()
	p := open(t)
	kind := task.NewKind[struct{}]("mail.send", task.Queue("payments"))
	now := time.Now()
	made := p.schedule(kind.New("ann", struct{}{}, task.In(time.Hour)))
	for verb, state := range map[string]task.State{"cancel": task.Pending, "retry": task.Dead} {
		_, err := p.p.DB().ExecContext(t.Context(),
			"UPDATE duetime_tasks SET attempt = 3, run_at = due_at + 7200000, version = version + 1, state = ?", int8(state))
		pipelinetest.Must(t, err)
		for window, want := range map[[2]time.Duration]bool{
			{30 * time.Minute, 90 * time.Minute}: true, {150 * time.Minute, 210 * time.Minute}: false,
		} {
			form := url.Values{"state": {state.String()}}
			form.Set("after", now.Add(window[0]).UTC().Format(time.RFC3339))
			form.Set("before", now.Add(window[1]).UTC().Format(time.RFC3339))
			shown := strings.Contains(p.get(200, "tasks?"+form.Encode()), made.ID.String())
			form.Del("state") // as the page's form sends it
			form.Set("do", "bulk")
			form.Set("verb", verb)
			taken := strings.Contains(p.get(200, "change?"+form.Encode()), made.ID.String())
			form.Del("do")
			form.Set("bounds", "run") // as a link from Ahead
			form.Set("state", state.String())
			page := p.get(200, "tasks?"+form.Encode())
			if at := strings.Contains(page, made.ID.String()); at == want || strings.Contains(page, `class="filter bulk"`) {
				t.Errorf("%s tasks, window %v of the next attempt: the list shows it: %v, want that, and no mass change", state, window, at)
			}
			if shown != want || taken != want {
				t.Errorf("%s tasks, window %v: the list shows it: %v; %s takes it: %v; want %v", state, window, shown, verb, taken, want)
			}
		}
	}
}

// A search and the mass change below it leave the same tasks out.
func TestSearchExcludes(t *testing.T) {
	t.Parallel()
	p := open(t)
	kept := p.schedule(charge.New("ada", Charge{1}, task.In(time.Hour)))
	out := p.schedule(charge.New("ada", Charge{2}, task.In(time.Hour), task.Label("event", "siege")))
	other := p.schedule(task.NewKind[struct{}]("mail.send", task.Queue("payments")).New("ada", struct{}{}, task.In(time.Hour)))
	for _, owner := range []string{"ada", ""} {
		form := url.Values{"owner": {owner}, "excludekind": {"mail.send, mail.read"}, "excludelabel": {"event=feast,event=siege"}}
		list := p.get(200, "tasks?"+form.Encode())
		sent := hidden(t, list) // as the form of the mass change sends it
		sent.Set("do", "bulk")
		sent.Set("verb", "cancel")
		preview := p.get(200, "change?"+sent.Encode())
		for name, page := range map[string]string{"list": list, "preview": preview} {
			for id, want := range map[task.ID]bool{kept.ID: true, out.ID: false, other.ID: false} {
				if strings.Contains(page, "task?id="+id.String()) != want {
					t.Errorf("owner %q: the %s has %s: want %v: %s", owner, name, id, want, page)
				}
			}
		}
		if !strings.Contains(preview, "without kind mail.send") || !strings.Contains(preview, "without label event=siege") {
			t.Errorf("the preview says %s", preview)
		}
	}
	p.get(400, "tasks?owner=ada&excludelabel=event")
}
