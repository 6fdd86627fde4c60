package index_test

import (
	"testing"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func repair(t testing.TB, x *index.Index, repairs ...protocol.Repair) int {
	t.Helper()
	changed, err := x.Repair(t.Context(), repairs)
	pipelinetest.Must(t, err)
	return changed
}

func both(t task.Task) protocol.Standing {
	return protocol.Standing{Due: protocol.ScoreOf(t), Owner: protocol.ScoreOf(t)}
}

var absent = protocol.Standing{Due: protocol.NoScore, Owner: protocol.NoScore}

func TestRepairReplacesAPhantomVersion(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a := pending("o", 10, 3)
		phantom := moved(a, 5000, 9) // its transaction never committed
		put(t, x, phantom)
		put(t, x, a)
		diff(t, "the guard refuses the truth", standings(t, x, a), []protocol.Standing{both(phantom)})

		r := protocol.Repair{Task: a, Seen: both(phantom), Right: both(a)}
		diff(t, "changed", repair(t, x, r), 1)
		diff(t, "repaired", standings(t, x, a), []protocol.Standing{both(a)})
		diff(t, "repeated", repair(t, x, r), 0)
		diff(t, "as it was", standings(t, x, a), []protocol.Standing{both(a)})
	})
}

func TestRepairWritesOnlyOverWhatWasSeen(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a := pending("o", 10, 1)
		b := moved(a, 20, 2)
		half := func(due, owner task.Task) protocol.Standing {
			return protocol.Standing{Due: protocol.ScoreOf(due), Owner: protocol.ScoreOf(owner)}
		}
		for _, c := range []struct {
			name               string
			stands, seen, want protocol.Standing
			changed            int
		}{
			{"both as seen", both(a), both(a), both(b), 1},
			{"absent as seen", absent, absent, both(b), 1},
			{"due moved on", half(b, a), both(a), half(b, a), 0},
			{"owner moved on", half(a, b), both(a), half(a, b), 0},
			{"appeared", both(a), absent, both(a), 0},
			{"vanished", absent, both(a), absent, 0},
			{
				"acked meanwhile",
				protocol.Standing{Due: protocol.NoScore, Owner: protocol.ScoreOf(a)},
				both(a),
				protocol.Standing{Due: protocol.NoScore, Owner: protocol.ScoreOf(a)},
				0,
			},
		} {
			stand(t, x, a, c.stands)
			diff(t, c.name, repair(t, x, protocol.Repair{Task: a, Seen: c.seen, Right: both(b)}), c.changed)
			diff(t, c.name, standings(t, x, a), []protocol.Standing{c.want})
		}
	})
}

func TestRepairRemovesGhostsAndCountsChanges(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		ghost, right, lost := pending("o", 1, 1), pending("o", 2, 1), pending("p", 3, 1)
		put(t, x, ghost, right)
		changed := repair(
			t, x,
			protocol.Repair{Task: ghost, Seen: both(ghost), Right: absent},
			protocol.Repair{Task: right, Seen: both(right), Right: both(right)},
			protocol.Repair{Task: lost, Seen: absent, Right: both(lost)},
			protocol.Repair{Task: lost, Seen: absent, Right: both(ghost)}, // the same task twice: the first one counts
		)
		diff(t, "changed", changed, 2)
		diff(t, "standings", standings(t, x, ghost, right, lost), []protocol.Standing{absent, both(right), both(lost)})
	})
}

func TestRebuildMarker(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		marked := func() []bool {
			m, err := x.Marked(t.Context(), 3)
			pipelinetest.Must(t, err)
			c, err := x.Claim(t.Context(), 1, 1, base, 0, 1, nil)
			pipelinetest.Must(t, err)
			diff(t, "claim says the same", c.Marked, m[1])
			return m
		}
		begin := func() string {
			token, err := x.BeginRebuild(t.Context(), 1)
			pipelinetest.Must(t, err)
			return token
		}
		end := func(token string) bool {
			ok, err := x.EndRebuild(t.Context(), 1, token)
			pipelinetest.Must(t, err)
			return ok
		}
		flush := func() { pipelinetest.Must(t, x.Client().Del(t.Context(), x.Key(1, "gen")).Err()) }

		diff(t, "at first", marked(), []bool{false, false, false})
		first := begin()
		diff(t, "while building", marked(), []bool{false, false, false})
		flush()
		diff(t, "end after a second flush", end(first), false)
		diff(t, "not marked by it", marked(), []bool{false, false, false})

		second, third := begin(), begin()
		diff(t, "end of the overtaken", end(second), false)
		diff(t, "end", end(third), true)
		diff(t, "end, repeated", end(third), true)
		diff(t, "marked", marked(), []bool{false, true, false})
		flush()
		diff(t, "end, repeated after a flush", end(third), false)
		diff(t, "lost", marked(), []bool{false, false, false})
	})
}

func TestListings(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		owners := []string{"o*", "o", "ö [x]", "a\x1fb", "c{d}", "e:f"}
		want := map[task.ID]protocol.Entry{}
		for shard := range 2 {
			for i := range 150 {
				p := pending(owners[i%len(owners)], int64(i), 1)
				p.Shard = shard
				p.Queue = []string{"default", "mail"}[i%2]
				p.Subject = []string{"", "pet", "a\x1fb\x1f"}[i%3]
				put(t, x, p)
				if shard == 1 {
					want[p.ID] = index.Decode(index.Encode(p), float64(protocol.ScoreOf(p)))
				}
			}
		}
		check := func(what string, got []protocol.Entry) {
			t.Helper()
			byID := map[task.ID]protocol.Entry{}
			for _, e := range got {
				byID[e.ID] = e
			}
			diff(t, what, byID, want)
		}
		check("due", scanDue(t, x, 1))
		check("owners", scanOwners(t, x, 1))
		var listed []protocol.Entry
		for _, o := range owners {
			some, _, err := worldtest.OwnerEntries(t.Context(), x, 1, o)
			pipelinetest.Must(t, err)
			diff(t, "of "+o, len(some), 25)
			listed = append(listed, some...)
		}
		check("lists", listed)
		counts, err := x.Counts(t.Context(), 2)
		pipelinetest.Must(t, err)
		diff(t, "count", counts[1], int64(150))
	})
}

func TestFillLeavesWhatStandsAlone(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a := pending("o", 10, 3)
		other := moved(a, 20, 9)
		due := protocol.Standing{Due: protocol.ScoreOf(a), Owner: protocol.NoScore}
		owner := protocol.Standing{Due: protocol.NoScore, Owner: protocol.ScoreOf(a)}
		for _, c := range []struct {
			name         string
			stands, want protocol.Standing
			otherwise    []task.Task
		}{
			{"absent", absent, both(a), nil},
			{"right", both(a), both(a), nil},
			{"other", both(other), both(other), []task.Task{a}},
			{"in due alone", due, due, []task.Task{a}},
			{"in the owner's set alone", owner, owner, []task.Task{a}},
		} {
			stand(t, x, a, c.stands)
			fresh := pending("o", 30, 1) // put together with a task that is absent
			otherwise, err := x.Fill(t.Context(), []task.Task{a, fresh})
			pipelinetest.Must(t, err)
			diff(t, c.name+": otherwise", otherwise, c.otherwise)
			diff(t, c.name, standings(t, x, a, fresh), []protocol.Standing{c.want, both(fresh)})
		}
	})
}
