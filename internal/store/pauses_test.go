package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/pkg/task"
)

// Pauses until a time, those of whole queues too.
func timedPauses(t *testing.T, s *store.Store) {
	ctx := t.Context()
	now := value[time.Time](t)(s.Now(ctx, nil))
	hour := now.Add(time.Hour)
	ann, mails := protocol.PauseOf{Queue: "calls", Owner: "ann"}, protocol.PauseOf{Kind: "mail"}
	put := func(of protocol.PauseOf, until time.Time) {
		t.Helper()
		must(t, s.PutPauses(ctx, s.DB(), []protocol.Pause{{PauseOf: of, Until: until, Made: now, Actor: "ann@host"}}))
	}
	stand := func(want ...protocol.Pause) {
		t.Helper()
		if d := cmp.Diff(want, value[[]protocol.Pause](t)(s.Pauses(ctx))); d != "" {
			t.Errorf("pauses (-want +got):\n%s", d)
		}
	}
	stand()
	put(ann, now.Add(30*time.Minute))
	put(ann, hour)
	put(ann, now.Add(time.Minute)) // never shorter
	put(mails, now.Add(-time.Second))
	put(mails, now.Add(2*time.Hour))
	put(protocol.PauseOf{Kind: "over"}, now.Add(-time.Second))
	for _, c := range []struct {
		until time.Time
		want  bool
	}{{hour, true}, {now.Add(time.Minute), false}, {hour.Add(time.Second), true}} {
		if got := value[bool](t)(s.Pause(ctx, s.DB(), "mails", now, c.until)); got != c.want {
			t.Errorf("pause of a queue until %v: %v, want %v", c.until.Sub(now), got, c.want)
		}
	}
	value[bool](t)(s.Pause(ctx, s.DB(), "done", now, now.Add(-time.Second)))
	annPause := protocol.Pause{PauseOf: ann, Until: hour, Made: now, Actor: "ann@host"}
	mailPause := protocol.Pause{PauseOf: mails, Until: now.Add(2 * time.Hour), Made: now, Actor: "ann@host"}
	queuePause := protocol.Pause{PauseOf: protocol.PauseOf{Queue: "mails"}, Until: hour.Add(time.Second), Made: now}
	stand(mailPause, annPause, queuePause)
	for owner, want := range map[string]protocol.Pauses{"ann": {ann: hour, mails: mailPause.Until}, "bob": {mails: mailPause.Until}} {
		if d := cmp.Diff(want, value[protocol.Pauses](t)(s.PausesOf(ctx, s.DB(), []string{owner}))); d != "" {
			t.Errorf("pauses of %s (-want +got):\n%s", owner, d)
		}
	}
	if d := cmp.Diff(map[string]time.Time{"mails": now}, value[map[string]time.Time](t)(s.Paused(ctx))); d != "" {
		t.Errorf("paused queues (-want +got):\n%s", d)
	}

	n, queues, err := s.ForgetPauses(ctx, now, 10)
	must(t, err)
	if n != 2 || cmp.Diff([]string{"done"}, queues) != "" {
		t.Errorf("forgot %d and the queues %v, want two and done", n, queues)
	}
	if got := value[time.Time](t)(s.PauseUntil(ctx, s.DB(), ann)); !got.Equal(hour) {
		t.Errorf("ann is paused until %v, want %v", got, hour)
	}
	for _, want := range []bool{true, false} {
		if got := value[bool](t)(s.ResumePause(ctx, s.DB(), ann, now)); got != want {
			t.Errorf("resumed: %v, want %v", got, want)
		}
	}
	stand(mailPause, queuePause)
	resumed := func(want ...time.Duration) { // tasks stand at each of these ends
		t.Helper()
		var got []time.Duration
		for _, p := range value[[]protocol.Pause](t)(s.ResumedPauses(ctx, protocol.Pause{}, 10)) {
			if got = append(got, p.Until.Sub(now)); p.PauseOf != ann || !p.Resumed.Equal(now) {
				t.Errorf("resumed: %+v", p)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("ends of resumed pauses (-want +got):\n%s", d)
		}
	}
	resumed(time.Minute, 30*time.Minute, time.Hour)
	put(ann, now.Add(time.Minute)) // anew, and shorter
	annPause.Until = now.Add(time.Minute)
	stand(mailPause, annPause, queuePause)
	resumed(30*time.Minute, time.Hour)
	value[bool](t)(s.ResumePause(ctx, s.DB(), ann, now))
	resumed(time.Minute, 30*time.Minute, time.Hour)
	if got := value[bool](t)(s.Pause(ctx, s.DB(), "mails", now, time.Time{})); !got {
		t.Error("a pause with an end is not made one until a resume")
	}
	queuePause.Until = time.Time{}
	stand(mailPause, queuePause)
}

// More pauses than a statement may read or change on Vitess are listed, and one that was made longer as often is resumed.
func TestManyPauses(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{})
	const many = 10_010
	now := value[time.Time](t)(s.Now(t.Context(), nil))
	ann := protocol.PauseOf{Owner: "ann"}
	put := make([]protocol.Pause, 0, 2*many)
	for i := range many {
		until := now.Add(time.Hour + time.Duration(i)*time.Second)
		put = append(put, protocol.Pause{PauseOf: ann, Until: until, Made: now},
			protocol.Pause{PauseOf: protocol.PauseOf{Owner: fmt.Sprintf("owner-%d", i), Kind: "mail"}, Until: until, Made: now})
	}
	inTx(t, s, func(ctx context.Context, tx *sqlx.Tx) { must(t, s.PutPauses(ctx, tx, put)) })
	value[bool](t)(s.Pause(t.Context(), s.DB(), "mails", now, time.Time{}))
	if got := value[[]protocol.Pause](t)(s.Pauses(t.Context())); len(got) != many+2 {
		t.Errorf("%d pauses stand, want %d", len(got), many+2)
	}
	if !value[bool](t)(s.ResumePause(t.Context(), s.DB(), ann, now)) {
		t.Error("the pause of ann did not stand")
	}
	if got := value[[]protocol.Pause](t)(s.Pauses(t.Context())); len(got) != many+1 {
		t.Errorf("%d pauses stand after a resume, want %d", len(got), many+1)
	}
}

// A reader is told which of the rows that it locks are paused.
func pausedRows(t *testing.T, s *store.Store) {
	ctx := t.Context()
	now := value[time.Time](t)(s.Now(ctx, nil))
	all := map[string]task.Task{}
	for name, change := range map[string]func(*task.Task){
		"plain": func(*task.Task) {}, "kind": func(r *task.Task) { r.Kind = "paused" }, "queue": func(r *task.Task) { r.Queue = "calls" },
		"over": func(r *task.Task) { r.Kind = "over" }, "resumed": func(r *task.Task) { r.Kind = "resumed" },
	} {
		row := ago(t, "ann", time.Minute)
		change(&row)
		all[name] = inserted(t, s, row)[0]
	}
	until := func(of protocol.PauseOf, end time.Time) protocol.Pause {
		return protocol.Pause{PauseOf: of, Until: end, Made: now}
	}
	must(t, s.PutPauses(ctx, s.DB(), []protocol.Pause{
		until(protocol.PauseOf{Kind: "paused"}, now.Add(time.Hour)), until(protocol.PauseOf{Owner: "ann", Queue: "calls"}, now.Add(time.Hour)),
		until(protocol.PauseOf{Kind: "over"}, now.Add(-time.Hour)), until(protocol.PauseOf{Kind: "resumed"}, now.Add(time.Hour)),
		until(protocol.PauseOf{Owner: "bob"}, now.Add(time.Hour)),
	}))
	value[bool](t)(s.ResumePause(ctx, s.DB(), protocol.PauseOf{Kind: "resumed"}, now))
	tx := value[*sqlx.Tx](t)(s.Begin(ctx))
	defer func() { _ = tx.Rollback() }()
	due := value[protocol.Due](t)(s.LockDue(ctx, tx, "ann", 0, 100))
	for name, row := range all {
		if got, want := due.Held[row.ID], name == "kind" || name == "queue"; got != want {
			t.Errorf("%s: held %v, want %v", name, got, want)
		}
	}
}

// Handlers may have paused thousands of owners: a reader, and a task behind an earlier one, ask for their own alone.
func TestPausesOfOthersAreNotRead(t *testing.T) {
	t.Parallel()
	s, _ := openMySQLStore(t, store.Options{MaxOpen: 1}) // whose session counts all
	crowdOf(t, s, "ann", 50)
	now := value[time.Time](t)(s.Now(t.Context(), nil))
	var pauses []protocol.Pause
	for i := range 1000 {
		of := protocol.PauseOf{Queue: "default", Owner: fmt.Sprint("owner", i)}
		pauses = append(pauses, protocol.Pause{PauseOf: of, Until: now.Add(time.Hour), Made: now})
	}
	must(t, s.PutPauses(t.Context(), s.DB(), pauses))
	before := rowsRead(t, s)
	due := value[protocol.Due](t)(s.LockDue(t.Context(), s.DB(), "ann", time.Hour, 50))
	if n := rowsRead(t, s) - before; len(due.Rows) != 50 || n > 20*50 {
		t.Errorf("locked %d rows, and read %d", len(due.Rows), n)
	}
}
