package witness

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// fake is a store whose effects and rows the test says.
type fake struct {
	Store

	now     time.Time
	effects []protocol.WitnessEffect
	row     task.Task
	locked  bool
	absent  bool
	ended   []string // faults of plays with a verdict
}

const dropped = "dropped"

func (f *fake) Effects(context.Context) (time.Time, []protocol.WitnessEffect, error) {
	return f.now, f.effects, nil
}

func (f *fake) LockFree(ctx context.Context, _ sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	if f.locked {
		return nil, f.now, nil
	}
	rows, err := f.Entries(ctx, ids)
	return rows, f.now, err
}

func (f *fake) Entries(context.Context, []task.ID) ([]task.Task, error) {
	if f.absent {
		return nil, nil
	}
	return []task.Task{f.row}, nil
}

func (f *fake) SaveVerdict(_ context.Context, _ task.ID, faults string) error {
	f.ended = append(f.ended, faults)
	return nil
}

func (f *fake) ForgetWitnessed(context.Context, []int64, time.Time, time.Duration) error {
	return nil
}

var thePlay = task.NewID()

// judging is a witness with one open play of one task that was due at 100 s.
func judging(f *fake) (*Witness, *promise) {
	w := New(Config{Now: func() time.Time { return f.now }, Logger: slog.New(slog.DiscardHandler)}, f, nil, nil)
	made := &promise{Part: "task", ID: task.NewID(), Is: state{Due: 100_000, Data: 1}}
	p := &play{id: thePlay, begun: at(98_000), Name: "keep", Promises: []*promise{made}}
	w.open = []*play{p}
	return w, made
}

// pass judges so many times, a second apart, while another task takes effect each second.
func (f *fake) pass(t *testing.T, w *Witness, times int, lively bool) {
	t.Helper()
	for range times {
		f.now = f.now.Add(judgeInterval)
		if lively {
			f.effects = append(f.effects, protocol.WitnessEffect{Play: task.NewID(), At: f.now})
		}
		if err := w.judge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLost tells what is lost from what is late.
func TestLost(t *testing.T) {
	t.Parallel()
	const minute = 60
	pending := task.Task{State: task.Pending, RunAt: at(100_000)}
	for _, c := range []struct {
		name   string
		change func(f *fake)
		quiet  bool
		want   []string
	}{
		{"it has its effect", func(f *fake) {
			f.effects = []protocol.WitnessEffect{{Play: thePlay, Part: "task", Due: at(100_000), At: at(100_001), Data: 1}}
		}, false, []string{""}},
		{"due for long, while others take effect", func(f *fake) { f.row = pending }, false, []string{lost}},
		{"due for long, but so are all others", func(f *fake) { f.row = pending }, true, nil},
		{"due for half an hour, like all others", func(f *fake) { f.row, f.now = pending, f.now.Add(givenUpAfter) }, true, []string{dropped}},
		{"somebody runs it", func(f *fake) { f.row, f.locked = pending, true }, false, nil},
		{"it waits for its next attempt", func(f *fake) { f.row = task.Task{State: task.Pending, RunAt: at(900_000)} }, false, nil},
		{"its row is gone", func(f *fake) { f.absent = true }, false, []string{lost}},
		{"done without its effect", func(f *fake) { f.row.State = task.Done }, false, []string{lost}},
		{"dead", func(f *fake) { f.row.State = task.Dead }, false, []string{lost}},
		{"cancelled by nobody", func(f *fake) { f.row.State = task.Cancelled }, false, []string{lost}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &fake{now: at(101_000)}
			w, _ := judging(f)
			c.change(f)
			f.pass(t, w, minute, !c.quiet)
			if len(w.open)+len(f.ended) == 0 {
				f.ended = []string{dropped}
			}
			if diff := cmp.Diff(c.want, f.ended); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLateEffect has an effect come again after the verdict.
func TestLateEffect(t *testing.T) {
	t.Parallel()
	f := &fake{now: at(109_000)}
	w, p := judging(f)
	f.effects = []protocol.WitnessEffect{{Seq: 1, Play: thePlay, Part: p.Part, Due: at(100_000), At: at(101_000), Data: 1}}
	f.pass(t, w, 2, false)
	f.effects = append(f.effects, f.effects[0])
	f.effects[1].Seq = 2
	f.pass(t, w, 2, false)
	if diff := cmp.Diff([]string{"", doubled}, f.ended); diff != "" {
		t.Error(diff)
	}
}

// TestAnswers has calls move a task: the row says when it is due.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w, p := judging(&fake{now: at(100_000)})
	open := w.open[0]
	for _, c := range []struct {
		to, due int64
		err     error
		open    int
	}{{300_000, 300_001, nil, 1}, {400_000, 300_001, task.ErrAlreadyDone, 1}, {500_000, 300_001, schedule.ErrCommitUnknown, 0}} {
		w.call(t.Context(), open, "move", []asked{{p, state{Due: c.to, Data: 1}}}, func(context.Context) ([]task.Task, error) {
			return []task.Task{{ID: p.ID, DueAt: at(c.to + 1)}}, c.err
		})
		if p.Is.Due != c.due || len(w.open) != c.open {
			t.Errorf("after %v it is due at %d, and %d plays are open", c.err, p.Is.Due, len(w.open))
		}
	}
}
