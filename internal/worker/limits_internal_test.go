package worker

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/limit"
	"github.com/duetime/duetime/pkg/task"
)

// A worker whose database's clock was set back renews its permits, and tells that due tasks wait: not as late as the clock was set.
func TestLesseeAsksAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := lessee{permits: 1, wanted: 1, present: true, asked: now, reported: now}
	ask := limit.Ask{Limit: task.Limit{Concurrency: 1}, Wanted: 1}
	if l.needs(ask, now) {
		t.Error("it renews what it has just got")
	}
	if !l.needs(ask, now.Add(-time.Hour)) {
		t.Error("it does not renew its permits")
	}
	ask.Limit, ask.Refused = task.Limit{Rate: task.Rate{Calls: 1, Per: time.Hour}}, true
	if l.needs(ask, now) || !l.needs(ask, now.Add(-time.Hour)) {
		t.Error("it does not tell that due tasks wait")
	}
}
