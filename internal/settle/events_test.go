package settle

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/hold"
	"github.com/duetime/duetime/pkg/task"
)

// Only what became of a task is reported, in id order, with the row as it was committed and the reason.
func TestEventsOfATransaction(t *testing.T) {
	t.Parallel()
	var got []string
	s := &Settler{cfg: Config{OnEvents: func(events []Event) {
		for _, e := range events {
			got = append(got, fmt.Sprintf("%d %s v%d %v", e.Task.ID[0], e.Name, e.Task.Version, e.Err))
		}
	}}}
	tr := &transaction{settler: s, members: map[task.ID]*member{}}
	add := func(id byte, r Result, failure error, text string) {
		row := meal(lastError(text))
		row.ID = task.ID{id}
		tr.members[row.ID] = &member{hint: &hold.Hint{Failure: hold.Failure{Err: failure}}, row: row, verdict: verdict{result: r}}
	}
	tr.reportEvents()
	for i, r := range results {
		if r.eventName() == "" {
			add(byte(100+i), r, errMeal, "")
		}
	}
	add(9, "", nil, "") // held
	tr.reportEvents()
	if got != nil {
		t.Fatalf("nothing became of the tasks, but events are %v", got)
	}
	add(6, resultDone, nil, "an attempt before")
	add(5, resultDone, nil, "")
	add(4, resultSkipped, nil, "skipped: late")
	add(3, resultDead, nil, "killed")
	add(2, resultFailed, errMeal, "no food")
	add(1, resultSnoozed, SnoozeError{Delay: time.Second}, "")
	tr.reportEvents()
	want := []string{
		"1 snoozed v3 snoozed for 1s", "2 failed v3 no food", "3 dead v3 killed", "4 skipped v3 skipped: late",
		"5 done v3 <nil>", "6 done v3 <nil>",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Each kind has its own time or the worker's, and the cause of its end names which.
func TestTimeoutOfEachKind(t *testing.T) {
	t.Parallel()
	timeouts := newTimeouts(map[string]*Handler{
		"meal": {}, "report": {Info: task.KindInfo{Timeout: time.Second}},
	}, time.Minute)
	for kind, want := range map[string]timeout{
		"meal":   {time.Minute, errors.New("handler exceeded worker.handler_timeout (Config.HandlerTimeout) of 1m0s")},
		"report": {time.Second, errors.New("handler exceeded the timeout of kind report (task.Timeout) of 1s")},
	} {
		got := timeouts[kind]
		if got.after != want.after || got.cause.Error() != want.cause.Error() || !errors.Is(got.cause, errTimeout) {
			t.Errorf("%s: got %v, %v, want %v, %v", kind, got.after, got.cause, want.after, want.cause)
		}
	}
}
