package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// explanation is what why --json writes.
type explanation struct {
	Answers []struct{ Rule, Sentence, Act, Runbook string }
	Unread  []string
}

// A deployment without processes has no leaders; a task says what it waits for.
func TestWhy(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	got := decode[explanation](t, d.wantCode(t, 0, "why", "--json"))
	if len(got.Answers) != 2 || got.Answers[0].Rule != "no-leader" || got.Answers[0].Runbook != "no-leader" || len(got.Unread) > 0 {
		t.Errorf("got %+v", got)
	}
	text := d.wantCode(t, 0, "why").out
	for _, want := range []string{
		"No living process leads event.", "\n  next: Start an event process", "\n  runbook: docs/runbooks/no-leader.md\n", "\nBesides:\nNo living process leads daemon.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	made := d.schedule(t, "ann", time.Hour)
	if text = d.wantCode(t, 0, "why", made.ID.String()).out; !strings.HasPrefix(text, "Due in 59 min") {
		t.Errorf("of a task: %s", text)
	}
	d.wantCode(t, 4, "why", task.NewID().String())
	d.wantCode(t, 1, "why", "nobody")
}

// Servers that are away are the answer, not an error.
func TestWhyWhileServersAreAway(t *testing.T) {
	t.Parallel()
	d := deployment{env: away(t, "MYSQL__DSN", "REDIS__ADDRS", "KAFKA__BROKERS", "ZOOKEEPER__SERVERS")}
	var rules []string
	for _, a := range decode[explanation](t, d.wantCode(t, 0, "why", "--json")).Answers {
		rules = append(rules, a.Rule)
	}
	if got := strings.Join(rules, " "); got != "mysql-away kafka-away redis-away zookeeper-away" {
		t.Errorf("got %s", got)
	}
}
