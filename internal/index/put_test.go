package index_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestPutSpreadsPendingAndFinished(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		var all []task.Task
		for i := range 40 {
			p := pending(fmt.Sprintf("owner-%d", i%7), int64(i), 1)
			p.Shard = i % 7
			all = append(all, p)
		}
		put(t, x, all...)
		for i, p := range all {
			if i%3 == 0 {
				all[i] = ended(p, 2)
			} else {
				all[i] = moved(p, int64(1000+i), 2)
			}
		}
		put(t, x, all...)

		want := make([]protocol.Standing, len(all))
		for i, p := range all {
			want[i] = protocol.Standing{Due: protocol.ScoreOf(p), Owner: protocol.ScoreOf(p)}
		}
		diff(t, "standings", standings(t, x, all...), want)
	})
}

// A new task beyond the horizon costs no call. One that moves there is dropped from both sets, unless it has moved on since.
func TestPutKeepsToTheHorizon(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		near, far := pending("ann", 1000, 1), pending("ann", 5000, 1)
		near2, far2 := pending("bob", 1000, 1), pending("bob", 5000, 1)
		put(t, x, near, near2)
		x.SetPutUntil(near.RunAt.Add(time.Second))
		put(t, x, far, far2)
		nowhere := protocol.Standing{Due: protocol.NoScore, Owner: protocol.NoScore}
		both := func(one task.Task) protocol.Standing {
			return protocol.Standing{Due: protocol.ScoreOf(one), Owner: protocol.ScoreOf(one)}
		}
		diff(t, "new", standings(t, x, near, far, near2, far2), []protocol.Standing{both(near), nowhere, both(near2), nowhere})

		out, in := moved(near, 6000, 2), moved(far, 1100, 2)
		back := moved(near2, 1200, 3)
		put(t, x, out, in, back)
		put(t, x, moved(near2, 7000, 2)) // it comes late
		diff(t, "moved", standings(t, x, out, in, back), []protocol.Standing{nowhere, both(in), both(back)})
		impossible := pending("eve", 0, 1)
		impossible.RunAt = time.UnixMilli(1.7e15)
		put(t, x, impossible)
		diff(t, "whose time no score can hold", standings(t, x, impossible), []protocol.Standing{both(impossible)})
		x.SetPutUntil(time.Time{})
		put(t, x, moved(out, 9000, 3))
		diff(t, "without a horizon", standings(t, x, out), []protocol.Standing{both(moved(out, 9000, 3))})
	})
}

// Whether a task is due soon is a matter of the database's clock, however wrong the host's is.
func TestPutWakesByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{15 * time.Minute, -15 * time.Minute} {
		now := time.Now().Add(ahead)
		x := open(t, index.Config{Addrs: []string{pipelinetest.Redis(t).Addr()}, Now: func() time.Time { return now }})
		in := wakes(t, x, 1)
		dueIn := func(d time.Duration) task.Task {
			p := pending("o", 0, 1)
			p.RunAt = now.Add(d).Truncate(time.Millisecond)
			return p
		}
		put(t, x, dueIn(11*time.Minute))
		expect(t, x, in, fmt.Sprintf("database %v ahead: far off", ahead))
		near := dueIn(time.Second)
		put(t, x, near)
		expect(t, x, in, fmt.Sprintf("database %v ahead: soon", ahead), wake{0, near.RunAt})
	}
}

func TestPutTakesMoreThanOneScriptHolds(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		all := make([]task.Task, 2*task.MaxPerCall+1)
		for i := range all {
			all[i] = pending("busy", int64(i), 1)
		}
		put(t, x, all...)
		listed, _, err := worldtest.OwnerEntries(t.Context(), x, 0, "busy")
		pipelinetest.Must(t, err)
		diff(t, "owner's list", listed, entries(all...))

		for i, p := range all {
			all[i] = ended(p, 2)
		}
		put(t, x, all...)
		if n := x.Client().Exists(t.Context(), x.Key(0, "due"), x.Key(0, "owner:busy")).Val(); n != 0 {
			t.Errorf("%d sets left, want none: an empty set vanishes", n)
		}
	})
}

func TestPutCountsTheHigherVersionOfOneTask(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a, b := pending("o", 10, 1), pending("o", 20, 1)
		put(t, x, a, ended(b, 2), moved(a, 30, 2), b)
		diff(t, "standings", standings(t, x, a, b), []protocol.Standing{
			{Due: protocol.ScoreOf(moved(a, 30, 2)), Owner: protocol.ScoreOf(moved(a, 30, 2))},
			{Due: protocol.NoScore, Owner: protocol.NoScore},
		})
	})
}

const none = int64(-1)

// guards says, for the versions in due and in the owner's set, whether a writer's version is written.
var guards = []struct {
	due, owner, version int64
	put, drop           bool
}{
	{none, none, 1, true, true},
	{1, 1, 2, true, true},
	{2, 2, 1, false, false},
	{2, 2, 2, true, true}, // a repeat
	{4095, 4095, 4096, true, true},
	{4096, 4096, 4095, false, false},
	{4097, 4097, 4095, false, false},
	{4095, 4095, 4097, true, true},
	{1, 1, 2048, true, true},   // 2047 ahead
	{1, 1, 2049, false, true},  // 2048 ahead: neither is newer
	{1, 1, 2050, false, false}, // looks older
	{2048, 2048, 1, false, false},
	{1, 2, 1, false, false}, // the owner's set is newer
	{1, 2, 2, true, true},
	{2, 1, 1, false, false}, // due is newer
	{2, 1, 2, true, true},
	{4095, 4096, 4095, false, false},
	{none, 3, 2, false, false}, // acked meanwhile
	{none, 3, 3, true, true},
	{none, 3, 4, true, true},
	{3, none, 2, false, false},
	{3, none, 4, true, true},
}

func TestVersionGuard(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		for _, g := range guards {
			a := pending("o", 0, 1)
			before := protocol.Standing{Due: scoreAt(a, 100, g.due), Owner: scoreAt(a, 200, g.owner)}

			stand(t, x, a, before)
			put(t, x, moved(a, 50, g.version))
			want := before
			if g.put {
				want.Due = scoreAt(a, 50, g.version)
				want.Owner = want.Due
			}
			diff(t, fmt.Sprintf("put %+v", g), standings(t, x, a), []protocol.Standing{want})

			stand(t, x, a, before)
			put(t, x, ended(a, g.version))
			want = before
			if g.drop {
				want = protocol.Standing{Due: protocol.NoScore, Owner: protocol.NoScore}
			}
			diff(t, fmt.Sprintf("drop %+v", g), standings(t, x, a), []protocol.Standing{want})
		}
	})
}

func scoreAt(t task.Task, ms, version int64) protocol.Score {
	if version == none {
		return protocol.NoScore
	}
	return protocol.ScoreOf(moved(t, ms, version))
}

func TestLateWriteCannotUndoAReschedule(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a := pending("o", 1000, 1)
		sped := moved(a, 10, 2)
		put(t, x, sped)
		put(t, x, a) // the first schedule's put, delayed
		diff(t, "claim", claim(t, x, 10, 9).Entries, entries(sped))

		claim(t, x, 10, 9, entries(sped)...) // acked: only the owner's set remembers version 2
		put(t, x, a)
		diff(t, "after ack", standings(t, x, a), []protocol.Standing{{Due: protocol.NoScore, Owner: protocol.ScoreOf(sped)}})
	})
}

func TestScoresAreExact(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		var all []task.Task
		for i := range int64(600) {
			all = append(all, moved(pending("o", 0, 1), 409_715_555*i, i*7))
		}
		put(t, x, all...)
		listed, _, err := worldtest.OwnerEntries(t.Context(), x, 0, "o")
		pipelinetest.Must(t, err)
		diff(t, "owner's list", listed, entries(all...))
		diff(t, "claim", claim(t, x, 409_715_555*600, 600).Entries, entries(all...))
		for i, e := range listed {
			if e.Score.Version() != all[i].Version%protocol.VersionWindow || !e.Score.RunAt().Equal(all[i].RunAt) {
				t.Fatalf("%v v%d came back as %v v%d", all[i].RunAt, all[i].Version, e.Score.RunAt(), e.Score.Version())
			}
		}
	})
}
