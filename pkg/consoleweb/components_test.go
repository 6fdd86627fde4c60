package consoleweb

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/console"
)

// Now says of a leadership who leads, whether a new leader has taken over all shards, and whether somebody could follow.
func TestComponentOfALeader(t *testing.T) {
	t.Parallel()
	at := func(host string) console.Process {
		return console.Process{Role: "event", Host: host, State: console.ProcessAlive}
	}
	silent := at("c")
	silent.State = console.ProcessSilent
	for _, c := range []struct {
		host      string
		shards    int
		processes []console.Process
		want      component
	}{
		{"", 16, []console.Process{at("a")}, component{"event", "no living process", "dead", "leaders"}},
		{"a", 16, []console.Process{at("a"), at("b"), silent}, component{"event", "on a, 1 spare", "", "leaders"}},
		{"a", 16, []console.Process{at("a"), silent}, component{"event", "on a, no spare", "", "leaders"}},
		{"a", 3, []console.Process{at("a"), at("b"), at("c")}, component{"event", "on a, 3 of 16 shards, 2 spare", "late", "leaders"}},
	} {
		n := &nowView{nowRead: nowRead{frameRead: frameRead{Processes: c.processes}}}
		if got := n.leader(&visit{lang: "en"}, console.Leader{Name: "event", Epoch: 2, Host: c.host, Shards: &c.shards, Of: new(16)}); got != c.want {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

// A server is called ok only if it was asked. What more is told of a component stands in a part of System that is there.
func TestComponentsThatWereAsked(t *testing.T) {
	t.Parallel()
	system, err := fs.ReadFile(pageFiles, "page/system.html")
	pipelinetest.Must(t, err)
	fine, away := []console.Answer{{Rule: "on-time"}}, []console.Answer{{Evidence: map[string]any{"server": "Kafka"}}}
	for _, c := range []struct {
		why      console.Explanation
		degraded int
		want     []string
	}{
		{console.Explanation{}, 0, []string{"MySQL, Redis ok"}},
		{console.Explanation{}, 1, []string{"MySQL, Redis ok", "Kafka hints are late for 1 worker"}},
		{console.Explanation{Answers: fine, Unread: []string{"Kafka", "ZooKeeper"}}, 0, []string{"MySQL, Redis ok"}},
		{console.Explanation{Answers: fine}, 0, []string{"MySQL, Redis, Kafka, ZooKeeper ok"}},
		{console.Explanation{Answers: away}, 0, []string{"MySQL, Redis, ZooKeeper ok", "Kafka away"}},
	} {
		frame := console.Frame{Queues: []console.Queue{{Degraded: c.degraded}}}
		n := &nowView{Why: c.why, nowRead: nowRead{frameRead: frameRead{Frame: frame, Leads: []console.Leader{{Name: "event"}}}}}
		var got []string
		for _, part := range n.components(&visit{lang: "en"}) {
			if part.Part == "" {
				got = append(got, part.Name+" "+part.Text)
			}
			if part.Part != "" && !strings.Contains(string(system), `id="`+part.Part+`"`) {
				t.Errorf("%s leads to %s, which System lacks", part.Name, part.Part)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c, got, c.want)
		}
	}
}
