package transition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestPuttingOffNeverBringsNearer(t *testing.T) {
	t.Parallel()
	fresh := pending(t, 0)
	late := fresh.DueAt.Add(30 * time.Minute)
	rows := map[string]task.Task{
		"waits for its time": fresh,
		"waits for a retry":  transition.Fail(fresh, errBoom, 10*time.Minute, late),
		"rests":              transition.Rearm(fresh, 6*time.Hour, late),
		"rests for ever":     transition.Rearm(fresh, 1<<63-1, late),
		"waits for a worker": transition.Await(fresh, late),
		"waits for a pause":  transition.PutOff(fresh, late.Add(time.Hour), late),
	}
	for name, row := range rows {
		for _, d := range []time.Duration{0, time.Millisecond, time.Minute, 10 * time.Minute, time.Hour, 48 * time.Hour} {
			got, err := transition.Shift(row, d, late)
			if err != nil || got.RunAt.Before(row.RunAt) || got.RunAt.Before(got.DueAt) {
				t.Errorf("%s, put off by %v: next try at %v instead of %v, due at %v (%v)", name, d, got.RunAt, row.RunAt, got.DueAt, err)
			}
		}
		for _, d := range []time.Duration{-1, -time.Minute, -48 * time.Hour} {
			got, err := transition.Shift(row, d, late)
			if err != nil || got.RunAt.After(row.RunAt) || row.RunAt.Sub(got.RunAt) > -d+time.Millisecond || got.RunAt.Before(got.DueAt) {
				t.Errorf("%s, sped up by %v: next try at %v instead of %v, due at %v (%v)", name, d, got.RunAt, row.RunAt, got.DueAt, err)
			}
		}
	}
	waits := rows["waits for a retry"]
	if got, _ := transition.Shift(waits, 10*time.Minute, late); !got.RunAt.Equal(waits.RunAt.Add(10 * time.Minute)) {
		t.Errorf("the retry was put off by %v", got.RunAt.Sub(waits.RunAt))
	}
}

func TestWhatIsNoTryCountsAsNone(t *testing.T) {
	t.Parallel()
	const window = time.Minute
	row := pending(t, 0)
	at := row.DueAt
	much := at.Add(time.Hour)
	for name, c := range map[string]struct {
		row  task.Task
		want bool
	}{
		"nobody knew the kind":              {transition.Await(row, at), true},
		"nobody knew it twice":              {transition.Await(transition.Await(row, at), at.Add(time.Minute)), true},
		"given back by a drain":             {transition.Refund(transition.Charge(row, at), at.Add(time.Second)), true},
		"put off while nobody knew":         {must(transition.Shift(transition.Await(row, at), time.Second, at)), true},
		"nobody knew it, then it rested":    {transition.Rearm(transition.Await(row, at), time.Second, at), false},
		"rested, then nobody knew the kind": {transition.Await(transition.Rearm(row, time.Second, at), at), false},
		"nobody knew it, then it failed":    {transition.Fail(transition.Await(row, at), errBoom, time.Second, at), false},
		"paused":                            {transition.PutOff(row, much, at), true},
		"paused twice":                      {transition.PutOff(transition.PutOff(row, at.Add(time.Minute), at), much, at.Add(time.Minute)), true},
		"its handler paused it":             {transition.RearmPaused(row, much, at), false},
		"rested, then it was paused":        {transition.PutOff(transition.Rearm(row, time.Second, at), much, at), false},
		"paused, then it failed":            {transition.Fail(transition.PutOff(row, much, at), errBoom, time.Second, at), false},
		"nobody knew it, then it was moved": {must(transition.Move(transition.Await(row, at), much, at)), false},
	} {
		if _, got := transition.Late(c.row, window, much); got != c.want {
			t.Errorf("%s: too late for a first try is %v, want %v (%q)", name, got, c.want, c.row.LastError)
		}
	}
}

func must(t task.Task, err error) task.Task {
	if err != nil {
		panic(err)
	}
	return t
}

func TestTaskWaitsTheLongerTheOlderItIs(t *testing.T) {
	t.Parallel()
	row := pending(t, 3)
	for age, bounds := range map[time.Duration][2]time.Duration{
		-time.Hour:                {2 * time.Second, 5 * time.Second},
		0:                         {2 * time.Second, 5 * time.Second},
		time.Minute:               {20 * time.Second, 41 * time.Second},
		10 * time.Minute:          {200 * time.Second, 401 * time.Second},
		10 * 365 * 24 * time.Hour: {5 * time.Second, 11 * time.Second},
	} {
		now := row.DueAt.Add(age)
		for range 50 {
			got := transition.Await(row, now)
			wait := got.RunAt.Sub(now)
			if wait < bounds[0] || wait > bounds[1] || got.Attempt != row.Attempt || got.Version != row.Version+1 {
				t.Fatalf("%v after its due time: waits %v, attempt %d", age, wait, got.Attempt)
			}
			if !transition.Waits(got) || !strings.Contains(got.LastError, `kind "meal"`) && !strings.Contains(got.LastError, row.Kind) {
				t.Fatalf("does not say why: %q", got.LastError)
			}
		}
	}
}

func TestOldTaskThatHasWaitedBeforeWaitsLonger(t *testing.T) {
	t.Parallel()
	row := pending(t, 0)
	began := row.DueAt.Add(24 * time.Hour)
	var last time.Duration
	for now := began; now.Before(began.Add(10 * time.Minute)); now = row.RunAt {
		row = transition.Await(row, now)
		last = row.RunAt.Sub(now)
	}
	if last < 50*time.Second || last > 10*time.Minute+time.Second {
		t.Errorf("ten minutes after it was first met a task waits %v", last)
	}
}

func TestEachWaitLeadsToAnotherPartition(t *testing.T) {
	t.Parallel()
	row := pending(t, 0)
	if key := protocol.RouteKey(row.Owner, protocol.ScoreOf(row)); key != row.Owner {
		t.Errorf("key of a task that waits for nobody: %q", key)
	}
	for range 5 {
		before := row.Version
		row = transition.Await(row, row.RunAt)
		owner, on := protocol.SplitRoute([]byte(protocol.RouteKey(row.Owner, protocol.ScoreOf(row))))
		if string(owner) != row.Owner || on != int(before+1) {
			t.Errorf("version %d: goes on by %d from the partition of %s", row.Version, on, owner)
		}
	}
	for _, key := range []string{"", "\x1f", "a\x1f", "a\x1fb", "a\x1f-1", "a\x1f123456", "\x1f5"} {
		if owner, on := protocol.SplitRoute([]byte(key)); on != 0 || string(owner) != key {
			t.Errorf("%q goes on by %d from %q", key, on, owner)
		}
	}
}
