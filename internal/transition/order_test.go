package transition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// A task waits until its head's next try, or for a moment that grows with its age; it goes back to its due time once the wait is over.
func TestWaitBehind(t *testing.T) {
	t.Parallel()
	row, first := pending(t, 0), pending(t, 0)
	at := row.DueAt.Add(time.Second)
	for name, c := range map[string]struct {
		headIn, age, want time.Duration
	}{
		"the head's next try":        {20 * time.Second, 0, 20 * time.Second},
		"a try far off":              {time.Hour, 0, time.Minute},
		"a try far off, of an old":   {24 * time.Hour, 8 * time.Hour, 2 * time.Hour},
		"a head that is due":         {0, 0, time.Second},
		"a head that is due for 40s": {0, 40 * time.Second, 10 * time.Second},
		"a head that is due for 1 h": {0, time.Hour, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, head := row.DueAt.Add(c.age), first
			head.RunAt = now.Add(c.headIn)
			got := transition.WaitBehind(row, protocol.Head{Task: head}, now)
			if wait := got.RunAt.Sub(now); wait != c.want || !got.DueAt.Equal(row.DueAt) || got.Version != row.Version+1 || got.Attempt != 0 {
				t.Errorf("waits for %v as %+v, want %v", wait, got, c.want)
			}
		})
	}
	head := transition.Fail(first, errBoom, time.Minute, at)
	got := transition.WaitBehind(row, protocol.Head{Task: head, Held: true}, at)
	for _, want := range []string{"never run", head.ID.String(), head.Kind, "paused or limited", "attempt 1 of", errBoom.Error()} {
		if !strings.Contains(got.LastError, want) {
			t.Errorf("last error %q lacks %q", got.LastError, want)
		}
	}
	if !transition.WaitsBehind(got) || transition.Waits(got) || transition.WaitsBehind(head) {
		t.Error("only the second one waits behind another task")
	}
	if late, skip := transition.Late(got, time.Minute, at.Add(time.Hour)); !skip {
		t.Errorf("the wait counts as a try: %v late", late)
	}
	if follows := transition.Follow(got, at.Add(time.Second)); !follows.RunAt.Equal(at.Add(time.Second)) || follows.Version != got.Version+1 {
		t.Errorf("follows as %+v", follows)
	}
	if plain := transition.Follow(head, at); plain.Version != head.Version {
		t.Errorf("a task that waits for its retry follows at once: %+v", plain)
	}
	if done := transition.Finish(got, at); done.LastError != "" {
		t.Errorf("done with the error %q", done.LastError)
	}
	if moved := must(transition.Move(got, at.Add(time.Hour), at)); moved.LastError != "" {
		t.Errorf("moved with the error %q", moved.LastError)
	}
	tried := transition.WaitBehind(transition.Fail(row, errBoom, 0, at), protocol.Head{Task: head}, at)
	if _, skip := transition.Late(tried, time.Minute, at.Add(time.Hour)); skip || !transition.WaitsBehind(tried) {
		t.Errorf("a task that was tried is skipped: %+v", tried)
	}
}

// Once its turn has come, a task that its handler snoozes waits for nobody: it must not be woken before its time.
func TestSnoozeEndsTheWait(t *testing.T) {
	t.Parallel()
	row := pending(t, 0)
	at := row.DueAt.Add(time.Second)
	for name, before := range map[string]task.Task{"never run": row, "tried": transition.Fail(row, errBoom, 0, at)} {
		got := transition.Rearm(transition.WaitBehind(before, protocol.Head{Task: pending(t, 0)}, at), time.Hour, at)
		if transition.WaitsBehind(got) || !transition.Follow(got, at).RunAt.Equal(at.Add(time.Hour)) {
			t.Errorf("%s: snoozed as %+v", name, got)
		}
	}
}

func TestIsBefore(t *testing.T) {
	t.Parallel()
	a, b := pending(t, 0), pending(t, 0)
	b.DueAt = a.DueAt
	if transition.IsBefore(a, b) != (a.ID.Compare(b.ID) < 0) || transition.IsBefore(a, a) {
		t.Error("of two that are due in one millisecond the lower id is first")
	}
	b.DueAt, b.ID = a.DueAt.Add(-time.Millisecond), task.ID{255}
	if !transition.IsBefore(b, a) || transition.IsBefore(a, b) {
		t.Error("the due time decides first")
	}
}

func TestOrderText(t *testing.T) {
	t.Parallel()
	march := task.NewKind[int]("march", task.InOrder())
	for want, spec := range map[string]task.Spec{
		"":        kind.New("ann", nil, task.In(0)),
		"city-1":  march.New("ann", 1, task.In(0), task.OrderKey("city-1")),
		"ann":     march.New("ann", 1, task.In(0)),
		"ann pet": march.New("ann", 1, task.In(0), task.Subject("pet")),
	} {
		if got := transition.OrderText(must(spec.Resolve(now))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
