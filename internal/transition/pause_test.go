package transition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestPutOffToTheEndOfAPause(t *testing.T) {
	t.Parallel()
	row := pending(t, 0)
	now := row.DueAt.Add(time.Minute)
	until := now.Add(time.Hour)
	put := transition.PutOff(row, until, now)
	if !put.RunAt.Equal(until) || !put.DueAt.Equal(row.DueAt) || put.Attempt != 0 || put.Version != row.Version+1 || !transition.WaitsForPause(put) {
		t.Errorf("put off: %+v", put)
	}
	failed := transition.Fail(row, errBoom, time.Second, now)
	for range 2 { // the error of the attempt stays, once
		failed = transition.PutOff(failed, until, now)
		if !strings.HasPrefix(failed.LastError, transition.PausedTried) || strings.Count(failed.LastError, errBoom.Error()) != 1 || failed.Attempt != 1 {
			t.Errorf("put off after an attempt: %+v", failed)
		}
	}
	if behind := transition.PutOff(transition.Await(row, now), until, now); strings.Contains(behind.LastError, "handles kind") {
		t.Errorf("says why it waited before: %q", behind.LastError)
	}
	woken := transition.Resume(put, now)
	if !woken.RunAt.Equal(now) || woken.Version != put.Version+1 {
		t.Errorf("resumed: %+v", woken)
	}
	for name, other := range map[string]task.Task{"not paused": row, "resumed": woken, "at its end": transition.Rearm(put, time.Hour, now)} {
		if got := transition.Resume(other, now.Add(time.Second)); got.Version != other.Version {
			t.Errorf("%s: changed by a resume: %+v", name, got)
		}
	}
	for name, after := range map[string]task.Task{"done": transition.Finish(put, until), "snoozed": transition.Rearm(put, time.Hour, until)} {
		if after.LastError != "" {
			t.Errorf("%s: the last error is %q", name, after.LastError)
		}
	}
	ended := transition.Finish(row, now)
	if got := transition.PutOff(ended, until, now); got.Version != ended.Version {
		t.Errorf("a task that has ended was put off: %+v", got)
	}
}

// What a pause has put off does not go on waiting in another queue, which need not be paused; a failure of before is not forgotten.
func TestPutOffTaskLeavesItsQueue(t *testing.T) {
	t.Parallel()
	row := pending(t, 0)
	now := row.DueAt.Add(time.Minute)
	put := transition.PutOff(transition.Fail(row, errBoom, time.Second, now), now.Add(time.Hour), now)
	moved := must(transition.Requeue(put, "elsewhere", now))
	if !moved.RunAt.Equal(now) || !moved.DueAt.Equal(row.DueAt) {
		t.Errorf("in another queue: %+v", moved)
	}
	for name, after := range map[string]task.Task{"done": transition.Finish(put, now), "snoozed": transition.Rearm(put, time.Hour, now)} {
		if after.LastError != errBoom.Error() {
			t.Errorf("%s: the last error is %q", name, after.LastError)
		}
	}
}
