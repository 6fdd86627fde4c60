package consoleweb

import (
	"testing"

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
