package transition_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

var (
	kind    = task.NewKind[map[string]int]("meal.done", task.Queue("pets"), task.MaxAttempts(3))
	now     = time.UnixMilli(1_800_000_000_123).UTC()
	errBoom = errors.New("boom")
)

func pending(t testing.TB, in time.Duration, opts ...task.Option) task.Task {
	t.Helper()
	row, err := kind.New("ann", map[string]int{"n": 1}, task.In(in), opts...).Resolve(now)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestResolve(t *testing.T) {
	t.Parallel()
	spec := kind.New("ann", map[string]int{"n": 1}, task.In(time.Hour), task.Subject("cat"), task.Key("k"))
	got, err := spec.Resolve(now)
	if err != nil {
		t.Fatal(err)
	}
	want := task.Task{
		ID: spec.ID(), Kind: "meal.done", Owner: "ann", Subject: "cat", Queue: "pets", State: task.Pending,
		DueAt: now.Add(time.Hour), RunAt: now.Add(time.Hour), Version: 1, MaxAttempts: 3, DedupKey: "kk",
		Payload: []byte(`{"n":1}`), CreatedAt: now, UpdatedAt: now,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	payload, err := kind.Payload(got)
	if err != nil || payload["n"] != 1 {
		t.Errorf("payload %v, %v", payload, err)
	}
}

func TestEachTransition(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, test := range map[string]struct {
		apply func(task.Task) task.Task
		want  func(*task.Task) // what differs besides version and updated_at
	}{
		"move": {
			func(r task.Task) task.Task { r, _ = transition.Move(r, now.Add(2*hour), now); return r },
			func(r *task.Task) { r.DueAt, r.RunAt = now.Add(2*hour), now.Add(2*hour) },
		},
		"move to the past": {
			func(r task.Task) task.Task { r, _ = transition.Move(r, now.Add(-hour), now); return r },
			func(r *task.Task) { r.DueAt, r.RunAt = now, now },
		},
		"shift": {
			func(r task.Task) task.Task { r, _ = transition.Shift(r, -time.Minute, now); return r },
			func(r *task.Task) { r.DueAt, r.RunAt = now.Add(59*time.Minute), now.Add(59*time.Minute) },
		},
		"shift by less than the row holds": {
			func(r task.Task) task.Task { r, _ = transition.Shift(r, -1500*time.Microsecond, now); return r },
			func(r *task.Task) { r.DueAt, r.RunAt = now.Add(hour-time.Millisecond), now.Add(hour-time.Millisecond) },
		},
		"replace": {
			func(r task.Task) task.Task {
				r.Attempt, r.LastError = 2, "boom"
				r, _ = transition.Replace(r, task.Task{
					ID: task.NewID(), Kind: "other", Owner: "bob", Subject: "dog", Queue: "kennels", Shard: 3, MaxAttempts: 9,
					DueAt: now.Add(2 * hour), RunAt: now.Add(3 * hour), DedupKey: "kother", Payload: []byte("2"),
					CreatedAt: now.Add(hour), Traceparent: "trace",
				}, now)
				return r
			},
			func(r *task.Task) {
				r.MaxAttempts, r.Payload, r.Traceparent = 9, []byte("2"), "trace"
				r.DueAt, r.RunAt = now.Add(2*hour), now.Add(2*hour)
			},
		},
		"replace by a time that is past": {
			func(r task.Task) task.Task {
				with := r
				with.DueAt = now.Add(-hour)
				r, _ = transition.Replace(r, with, now)
				return r
			},
			func(r *task.Task) { r.DueAt, r.RunAt = now, now },
		},
		"cancel": {
			func(r task.Task) task.Task { r, _ = transition.Cancel(r, now); return r },
			func(r *task.Task) { r.State, r.FinishedAt, r.DedupKey = task.Cancelled, now, "" },
		},
		"finish": {
			func(r task.Task) task.Task { return transition.Finish(r, now) },
			func(r *task.Task) { r.State, r.FinishedAt, r.DedupKey = task.Done, now, "" },
		},
		"fail": {
			func(r task.Task) task.Task { return transition.Fail(r, errBoom, time.Second, now) },
			func(r *task.Task) { r.Attempt, r.RunAt, r.TriedAt, r.LastError = 1, now.Add(time.Second), now, "boom" },
		},
		"fail for the last time": {
			func(r task.Task) task.Task { r.Attempt = 2; return transition.Fail(r, errBoom, time.Second, now) },
			func(r *task.Task) {
				r.Attempt, r.State, r.FinishedAt, r.DedupKey, r.LastError = 3, task.Dead, now, resting(*r, "k"), "boom"
			},
		},
		"charge": {
			func(r task.Task) task.Task { return transition.Charge(r, now) },
			func(r *task.Task) { r.Attempt = 1 },
		},
		"after a charge": {
			func(r task.Task) task.Task {
				r.Attempt = 1
				return transition.AfterCharge(r, errBoom, time.Second, now)
			},
			func(r *task.Task) { r.Attempt, r.RunAt, r.TriedAt, r.LastError = 1, now.Add(time.Second), now, "boom" },
		},
		"after the last charge": {
			func(r task.Task) task.Task {
				r.Attempt = 3
				return transition.AfterCharge(r, errBoom, time.Second, now)
			},
			func(r *task.Task) {
				r.Attempt, r.State, r.FinishedAt, r.DedupKey, r.LastError = 3, task.Dead, now, resting(*r, "k"), "boom"
			},
		},
		"rearm": {
			func(r task.Task) task.Task { return transition.Rearm(r, 2500*time.Microsecond, now) },
			func(r *task.Task) { r.RunAt, r.TriedAt = now.Add(3*time.Millisecond), now },
		},
		"rearm into the past": {
			func(r task.Task) task.Task { return transition.Rearm(r, -hour, now) },
			func(r *task.Task) { r.RunAt, r.TriedAt = now, now },
		},
		"rearm beyond all limits": {
			func(r task.Task) task.Task { return transition.Rearm(r, 1<<63-1, now) },
			func(r *task.Task) { r.RunAt, r.TriedAt = now.Add(task.MaxAhead), now },
		},
		"discard": {
			func(r task.Task) task.Task { return transition.Discard(r, errBoom, now) },
			func(r *task.Task) {
				r.State, r.FinishedAt, r.DedupKey, r.LastError = task.Dead, now, resting(*r, "k"), "boom"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := pending(t, hour, task.Key("k"))
			row.UpdatedAt = now.Add(-hour)
			want := row
			want.Version, want.UpdatedAt = 2, now
			test.want(&want)
			if diff := cmp.Diff(want, test.apply(row)); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnceKeyOutlivesTheTask(t *testing.T) {
	t.Parallel()
	if got := transition.Finish(pending(t, 0, task.Once("k")), now).DedupKey; got != "ok" {
		t.Errorf("key is %q, want ok", got)
	}
}

func TestFinishedAnswers(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	cancelled, err := transition.Cancel(row, now)
	if err != nil {
		t.Fatal(err)
	}
	for want, ended := range map[error]task.Task{
		task.ErrAlreadyDone:      transition.Finish(row, now),
		task.ErrAlreadyCancelled: cancelled,
		task.ErrAlreadyDead:      transition.Discard(row, errBoom, now),
	} {
		for name, change := range changes {
			got, err := change(ended, now)
			if !errors.Is(err, want) || !errors.Is(err, task.ErrFinished) {
				t.Errorf("%s: error is %v, want %v", name, err, want)
			}
			if diff := cmp.Diff(ended, got); diff != "" {
				t.Errorf("%s changed a finished task:\n%s", name, diff)
			}
		}
	}
}

func TestReplaceRefusesATimeBeyondTheLimits(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour, task.Key("k"))
	with := row
	with.Payload, with.DueAt = []byte("2"), now.Add(task.MaxAhead+time.Hour)
	got, err := transition.Replace(row, with, now)
	if err == nil || !strings.HasPrefix(err.Error(), "due must lie within") {
		t.Errorf("error is %v, want one of the field due", err)
	}
	if diff := cmp.Diff(row, got); diff != "" {
		t.Errorf("the refused replace changed the task:\n%s", diff)
	}
}

// changes are what a caller may ask for; they answer with an error where they can't.
var changes = map[string]func(task.Task, time.Time) (task.Task, error){
	"move": func(r task.Task, now time.Time) (task.Task, error) {
		return transition.Move(r, now.Add(time.Hour), now)
	},
	"shift back":  func(r task.Task, now time.Time) (task.Task, error) { return transition.Shift(r, -time.Minute, now) },
	"shift ahead": func(r task.Task, now time.Time) (task.Task, error) { return transition.Shift(r, time.Minute, now) },
	"replace": func(r task.Task, now time.Time) (task.Task, error) {
		return transition.Replace(r, task.Task{DueAt: r.DueAt}, now)
	},
	"cancel": transition.Cancel,
}

// outcomes are what a worker writes.
var outcomes = map[string]func(task.Task, time.Time) task.Task{
	"finish": transition.Finish,
	"charge": transition.Charge,
	"fail":   func(r task.Task, now time.Time) task.Task { return transition.Fail(r, errBoom, time.Second, now) },
	"after": func(r task.Task, now time.Time) task.Task {
		return transition.AfterCharge(r, errBoom, time.Second, now)
	},
	"rearm":   func(r task.Task, now time.Time) task.Task { return transition.Rearm(r, time.Second, now) },
	"discard": func(r task.Task, now time.Time) task.Task { return transition.Discard(r, errBoom, now) },
	"skip":    func(r task.Task, now time.Time) task.Task { return transition.Skip(r, 2*time.Minute, time.Minute, now) },
}

func TestAnySequenceOfTransitions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		at := now
		row, err := kind.New("ann", nil, task.In(time.Hour), task.Key("k")).Resolve(at)
		if err != nil {
			r.Fatal(err)
		}
		steps := map[string]func(*rapid.T){"": func(r *rapid.T) { checkRow(r, row) }}
		step := func(next func(task.Task, time.Time) task.Task) func(*rapid.T) {
			return func(r *rapid.T) {
				at = at.Add(time.Duration(rapid.IntRange(0, 7_200_000).Draw(r, "ms")) * time.Millisecond)
				before := row
				row = next(row, at)
				switch {
				case before.State == task.Dead && row.State != task.Dead && row.Version == before.Version+1:
				case before.State != task.Pending:
					if diff := cmp.Diff(before, row); diff != "" {
						r.Fatalf("a finished task changed:\n%s", diff)
					}
				case row.Version != before.Version+1 || !row.UpdatedAt.Equal(at):
					r.Fatalf("version %d after %d, updated at %v", row.Version, before.Version, row.UpdatedAt)
				}
			}
		}
		for name, change := range changes {
			steps[name] = step(func(row task.Task, at time.Time) task.Task { row, _ = change(row, at); return row })
		}
		for name, outcome := range outcomes {
			steps[name] = step(outcome)
		}
		for name, operate := range operators {
			steps[name] = func(r *rapid.T) {
				if row.State == task.Dead {
					step(func(row task.Task, at time.Time) task.Task { row, _ = operate(row, at); return row })(r)
				}
			}
		}
		r.Repeat(steps)
	})
}

func checkRow(r *rapid.T, row task.Task) {
	key := map[task.State]string{task.Pending: "kk", task.Dead: resting(row, "k")}[row.State]
	if ended := row.State != task.Pending; ended == row.FinishedAt.IsZero() || row.DedupKey != key {
		r.Fatalf("%v with finished_at %v and key %q", row.State, row.FinishedAt, row.DedupKey)
	}
	if (row.State == task.Pending) == (protocol.ScoreOf(row) == protocol.NoScore) {
		r.Fatalf("%v with score %v", row.State, protocol.ScoreOf(row))
	}
}

func TestErrorTextIsCutToWholeLetters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("é", 2000), "a" + strings.Repeat("é", 2000), strings.Repeat("x\xff", 3000)} {
		got := transition.Discard(pending(t, 0), errors.New(text), now).LastError
		if len(got) > transition.MaxError || len(got) < transition.MaxError-4 || !utf8.ValidString(got) {
			t.Errorf("kept %d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
	if got := transition.Discard(pending(t, 0), nil, now).LastError; got != "" {
		t.Errorf("no cause gave %q", got)
	}
}

func TestFiredFrom(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	if !transition.FiredFrom(row).Equal(row.DueAt) {
		t.Errorf("fired from %v, want the due time", transition.FiredFrom(row))
	}
	row.DueAt = now.Add(-time.Hour)
	if !transition.FiredFrom(row).Equal(now) {
		t.Errorf("fired from %v, want the time when it was made", transition.FiredFrom(row))
	}
}

func TestShardIsSQLs(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string]int{"123456789": 0xcbf43926 % 16, "": 0} { // CRC-32's check value
		if got := protocol.Shard(owner, 16); got != want {
			t.Errorf("shard of %q is %d, want %d", owner, got, want)
		}
	}
}

// A payload of another version says where to read what to do about it.
func TestPayloadOfAnotherVersion(t *testing.T) {
	t.Parallel()
	row := pending(t, time.Hour)
	row.Payload = []byte(`{"n":"one"}`)
	if _, err := kind.Payload(row); err == nil || !strings.Contains(err.Error(), "docs/CHANGING.md") || !strings.Contains(err.Error(), "meal.done") {
		t.Errorf("got %v, want an error that names the kind and the page", err)
	}
}
