package transition_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/recur"
	"github.com/duetime/duetime/pkg/task"
)

var feeding = task.NewKind[int]("meal.done", task.Queue("meals"), task.MaxAttempts(3))

// eight is a full hour: recurrences of these tests tick at each.
var eight = time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)

func hourly(t *testing.T, policy recur.Policy) task.Recurrence {
	t.Helper()
	r, err := feeding.Recurring("ann", 7, task.Subject("pet 9")).Recurrence("breakfast", recur.Every(time.Hour), policy, eight.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantTick(t *testing.T, tick task.Task, recurrence task.ID, at time.Time) {
	t.Helper()
	id, got, ok := tick.Tick()
	if at.IsZero() {
		if ok || !tick.ID.IsZero() {
			t.Errorf("got the tick of %v, want none", got)
		}
		return
	}
	if !ok || id != recurrence || !got.Equal(at) {
		t.Errorf("got the tick of %v (%v) of %v, want %v of %v", got, ok, id, at, recurrence)
	}
}

func TestRecurrenceTicks(t *testing.T) {
	t.Parallel()
	r, first := transition.BeginRecurrence(hourly(t, recur.Policy{}), eight.Add(-time.Minute))
	wantTick(t, first, r.ID, eight)
	want := task.Task{
		ID: first.ID, Kind: "meal.done", Owner: "ann", Subject: "pet 9", Queue: "meals", MaxAttempts: 3, Payload: []byte("7"),
		Version: 1, DueAt: eight, RunAt: eight, CreatedAt: eight.Add(-time.Minute), UpdatedAt: eight.Add(-time.Minute), DedupKey: first.DedupKey,
	}
	if d := cmp.Diff(want, first); d != "" || first.ID.IsZero() {
		t.Errorf("task (-want +got):\n%s", d)
	}
	if r.Newest != first.ID || !r.DueAt.Equal(eight) || r.Made != 1 {
		t.Errorf("recurrence %+v does not name its task", r)
	}
	r, second := transition.NewestEnded(r, eight, eight.Add(time.Second))
	wantTick(t, second, r.ID, eight.Add(time.Hour))
	if r.Made != 2 || r.Skipped != 0 || r.CaughtUp != 0 || r.Newest != second.ID {
		t.Errorf("after a tick: %+v", r)
	}
}

func TestRecurrenceCatchesUp(t *testing.T) {
	t.Parallel()
	at := func(hours float64) time.Time { return eight.Add(time.Duration(hours * float64(time.Hour))) }
	for _, c := range []struct {
		name              string
		policy            recur.Policy
		attempted, began  time.Time
		ended, want       time.Time
		skipped, caughtUp int64
		over              bool
	}{
		{"the last of those that were missed", recur.Policy{}, time.Time{}, at(3.5), at(3.6), at(3), 2, 1, false},
		{"none", recur.Policy{CatchUp: recur.CatchUpSkip}, time.Time{}, at(3.5), at(3.6), at(4), 3, 0, false},
		{"all, one after another", recur.Policy{CatchUp: recur.CatchUpAll(9)}, time.Time{}, at(3.5), at(3.6), at(1), 0, 1, false},
		{"a handler that was called at eight runs until eleven", recur.Policy{}, time.Time{}, at(0), at(3.6), at(4), 3, 0, false},
		{"retries go on until eleven", recur.Policy{}, at(0), at(3.5), at(3.6), at(4), 3, 0, false},
		{"retries, buffer one", recur.Policy{Overlap: recur.OverlapBufferOne}, at(0), at(3.5), at(3.6), at(3), 2, 1, false},
		{"cancelled, never tried", recur.Policy{}, time.Time{}, time.Time{}, at(3.6), at(3), 2, 1, false},
		{"cancelled before its time", recur.Policy{}, time.Time{}, time.Time{}, at(-0.01), at(1), 0, 0, false},
		{"over by count", recur.Policy{Count: 1}, time.Time{}, at(0), at(0.1), time.Time{}, 0, 0, true},
		{"over by its end", recur.Policy{End: at(0.5)}, time.Time{}, at(0), at(0.1), time.Time{}, 0, 0, true},
	} {
		r, _ := transition.BeginRecurrence(hourly(t, c.policy), eight.Add(-time.Minute))
		if !c.attempted.IsZero() {
			var tick task.Task
			r, tick = transition.NewestAttempted(r, c.attempted)
			wantTick(t, tick, r.ID, time.Time{})
			c.began = r.BeganAt
		}
		t.Run(c.name, func(t *testing.T) {
			r, tick := transition.NewestEnded(r, c.began, c.ended)
			wantTick(t, tick, r.ID, c.want)
			if r.Skipped != c.skipped || r.CaughtUp != c.caughtUp || (r.State == task.RecurrenceOver) != c.over {
				t.Errorf("got %+v, want %d skipped, %d caught up, over %v", r, c.skipped, c.caughtUp, c.over)
			}
			if tick.DueAt.Before(c.ended) && !tick.ID.IsZero() {
				t.Errorf("the task is due at %v, before it was made at %v", tick.DueAt, c.ended)
			}
		})
	}
}

func TestRecurrenceOverlaps(t *testing.T) {
	t.Parallel()
	r, first := transition.BeginRecurrence(hourly(t, recur.Policy{Overlap: recur.OverlapAllow}), eight.Add(-time.Minute))
	r, second := transition.NewestAttempted(r, eight)
	wantTick(t, second, r.ID, eight.Add(time.Hour))
	if r.Newest != second.ID || r.Newest == first.ID || !r.BeganAt.IsZero() {
		t.Errorf("after the overlap: %+v", r)
	}
}

func TestRecurrencePauses(t *testing.T) {
	t.Parallel()
	r, first := transition.BeginRecurrence(hourly(t, recur.Policy{Count: 2}), eight.Add(-time.Minute))
	withdrawn := transition.Withdraw(first, eight.Add(-30*time.Second))
	if withdrawn.State != task.Cancelled || withdrawn.DedupKey != "" || withdrawn.Version != 2 {
		t.Errorf("a withdrawn task is %+v, want it cancelled, without its key", withdrawn)
	}
	r = transition.PauseRecurrence(transition.NewestWithdrawn(r, eight.Add(-30*time.Second)), "sick", eight.Add(-30*time.Second))
	if r.State != task.RecurrencePaused || r.Note != "sick" || !r.Newest.IsZero() || r.Made != 0 {
		t.Errorf("paused: %+v", r)
	}
	r, tick := transition.BeginRecurrence(r, eight.Add(-20*time.Second))
	wantTick(t, tick, r.ID, eight) // its moment has not come
	r, tick = transition.BeginRecurrence(transition.PauseRecurrence(transition.NewestWithdrawn(r, eight.Add(-10*time.Second)), "", eight), eight.Add(3*time.Hour+time.Minute))
	wantTick(t, tick, r.ID, eight.Add(4*time.Hour))
	if r.State != task.RecurrenceActive || r.Note != "" || r.Skipped != 0 {
		t.Errorf("resumed: %+v", r)
	}
}

// While a task runs its recurrence gets another timetable: what follows is its first tick from then on, not one before.
func TestRecurrenceIsRedefinedWhileItsTaskRuns(t *testing.T) {
	t.Parallel()
	half := recur.Every(time.Hour).From(eight.Add(30 * time.Minute))
	for name, c := range map[string]struct {
		to    recur.Timetable
		ended time.Time
		want  time.Time
	}{
		"to an earlier time of the hour": {half, eight.Add(45 * time.Minute), eight.Add(90 * time.Minute)},
		"the tick after it has passed":   {half, eight.Add(95 * time.Minute), eight.Add(90 * time.Minute)},
		"other tasks only":               {recur.Every(time.Hour), eight.Add(65 * time.Minute), eight.Add(time.Hour)},
	} {
		r, _ := transition.BeginRecurrence(hourly(t, recur.Policy{}), eight.Add(-time.Minute))
		to := r
		to.Timetable, to.Payload = c.to, []byte("8")
		_, next := transition.NewestEnded(transition.Redefine(r, to, eight.Add(40*time.Minute)), c.ended, c.ended)
		t.Log(name)
		wantTick(t, next, r.ID, c.want)
	}
	r, _ := transition.BeginRecurrence(hourly(t, recur.Policy{}), eight.Add(-time.Minute))
	to := r
	to.Timetable = recur.Every(time.Minute)
	at := eight.Add(-50 * time.Second) // it was moved ahead, and runs before its tick
	_, next := transition.NewestEnded(transition.Redefine(r, to, at), at, at.Add(time.Second))
	wantTick(t, next, r.ID, eight)
}

// A pause within a tick's jitter does not lose the tick, unless it lasts longer than the jitter.
func TestRecurrencePausedInItsJitter(t *testing.T) {
	t.Parallel()
	r, first := transition.BeginRecurrence(hourly(t, recur.Policy{Jitter: time.Hour}), eight.Add(-time.Minute))
	paused := transition.PauseRecurrence(transition.NewestWithdrawn(r, eight.Add(time.Millisecond)), "", eight.Add(time.Millisecond))
	for name, c := range map[string]struct{ at, want time.Time }{
		"resumed in it":    {first.DueAt.Add(-time.Millisecond), eight},
		"resumed after it": {first.DueAt, eight.Add(time.Hour)},
	} {
		resumed, again := transition.BeginRecurrence(paused, c.at)
		t.Log(name)
		wantTick(t, again, r.ID, c.want)
		if resumed.State != task.RecurrenceActive || resumed.Newest != again.ID || resumed.Made != 1 || resumed.Skipped != 0 {
			t.Errorf("%s: got %+v", name, resumed)
		}
	}
	_, next := transition.BeginRecurrence(transition.StopRecurrence(transition.NewestWithdrawn(r, eight.Add(time.Millisecond)), eight.Add(time.Millisecond)), first.DueAt.Add(-time.Millisecond))
	wantTick(t, next, r.ID, eight.Add(time.Hour)) // begun anew
}

// A definition that this program can't read pauses the recurrence, and does not end it.
func TestRecurrenceOfALaterVersion(t *testing.T) {
	t.Parallel()
	r, _ := transition.BeginRecurrence(hourly(t, recur.Policy{}), eight.Add(-time.Minute))
	r.Timetable, _ = recur.Parse("cron Mars/Olympus 0 8 * * *")
	r, tick := transition.NewestEnded(r, eight, eight.Add(time.Second))
	wantTick(t, tick, r.ID, time.Time{})
	if r.State != task.RecurrencePaused || !strings.Contains(r.Note, "zone must be a name") {
		t.Errorf("got %v with the note %q, want it paused", r.State, r.Note)
	}
}

func TestRecurrenceJitter(t *testing.T) {
	t.Parallel()
	r, tick := transition.BeginRecurrence(hourly(t, recur.Policy{Jitter: time.Hour}), eight.Add(-time.Minute))
	wantTick(t, tick, r.ID, eight)
	if late := tick.DueAt.Sub(eight); late <= 0 || late >= time.Hour {
		t.Errorf("due %v after its tick, want up to an hour", late)
	}
}

func TestRecurrenceRefusals(t *testing.T) {
	t.Parallel()
	spec := feeding.Recurring("ann", 7)
	for want, refused := range map[string]struct {
		name string
		when recur.Timetable
		spec task.Spec
		p    recur.Policy
	}{
		"name must be 1 to 64 bytes":                         {"", recur.Every(time.Hour), spec, recur.Policy{}},
		"hour must be of 0 to 23":                            {"x", recur.Cron("0 24 * * *", "UTC"), spec, recur.Policy{}},
		"jitter must be 0 to":                                {"x", recur.Every(time.Hour), spec, recur.Policy{Jitter: -1}},
		"spec must be made by Kind.Recurring":                {"x", recur.Every(time.Hour), feeding.New("ann", 7, task.In(0)), recur.Policy{}},
		"key must not be set":                                {"x", recur.Every(time.Hour), feeding.Recurring("ann", 7, task.Key("k")), recur.Policy{}},
		"owner must be 1 to 64 bytes":                        {"x", recur.Every(time.Hour), feeding.Recurring("", 7), recur.Policy{}},
		"timetable must be made by Every, Cron or Parse":     {"x", recur.Timetable{}, spec, recur.Policy{}},
		"every must be 1s to 10 years, in whole millisecond": {"x", recur.Every(0), spec, recur.Policy{}},
	} {
		_, err := refused.spec.Recurrence(refused.name, refused.when, refused.p, eight)
		var field *task.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := spec.Resolve(eight); err == nil {
		t.Error("a spec of a recurrence can be scheduled without a time")
	}
}

func TestTickOfOtherKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "kr", "r", "r:1", "rAAAA:1", "rAAAAAAAAAAAAAAAAAAAAAA:x", "oAAAAAAAAAAAAAAAAAAAAAA:1"} {
		if _, _, ok := (task.Task{DedupKey: key}).Tick(); ok {
			t.Errorf("%q is taken for the key of a tick", key)
		}
	}
}
