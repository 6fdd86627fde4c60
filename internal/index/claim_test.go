package index_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

func TestClaimTakesTheWholeMillisecond(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		due := pending("o", 50, 4095) // the highest fraction of a score
		later := pending("o", 51, 4096)
		put(t, x, due, later)

		c := claim(t, x, 49, 9)
		diff(t, "1 ms before", c, protocol.Claim{Next: at(50)})
		diff(t, "on time", claim(t, x, 50, 9), protocol.Claim{Entries: entries(due), Next: at(51)})
		diff(t, "again: nothing was removed", claim(t, x, 50, 9), protocol.Claim{Entries: entries(due), Next: at(51)})
		diff(t, "1 ms after", claim(t, x, 51, 9), protocol.Claim{Entries: entries(due, later)})

		c, err := x.Claim(t.Context(), 0, 1, at(1), 50*time.Millisecond, 9, nil)
		pipelinetest.Must(t, err)
		diff(t, "with a lead", c, protocol.Claim{Entries: entries(due, later)})
	})
}

func TestClaimCountsWhatIsComing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		most := protocol.MaxLead.Milliseconds()
		put(t, x, pending("o", 10, 1), pending("o", 60, 4095), pending("o", 61, 1), pending("o", most+10, 4095), pending("o", most+11, 1))
		for _, c := range []struct{ now, lead, claimed, coming int64 }{
			{-most, 0, 0, 0}, {9, 0, 0, 3}, {10, 0, 1, 3}, {10, 50, 2, 2}, {10, 51, 3, 1}, {10, most, 4, 0}, {most, 20, 5, 0}, {2 * most, 0, 5, 0},
		} {
			got, err := x.Claim(t.Context(), 0, 1, at(c.now), time.Duration(c.lead)*time.Millisecond, 9, nil)
			pipelinetest.Must(t, err)
			if int64(len(got.Entries)) != c.claimed || int64(got.Coming) != c.coming {
				t.Errorf("at %d with a lead of %d: %d claimed and %d coming, want %d and %d", c.now, c.lead, len(got.Entries), got.Coming, c.claimed, c.coming)
			}
		}
	})
}

func TestOwnersListSaysWhetherItIsWhole(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		one := pending("o", 1, 1)
		put(t, x, one)
		want := func(when string, want bool) {
			t.Helper()
			listed, whole, err := worldtest.OwnerEntries(t.Context(), x, 0, "o")
			pipelinetest.Must(t, err)
			diff(t, "listed "+when, listed, entries(one))
			diff(t, "whole "+when, whole, want)
		}
		want("before any rebuild", false)
		token, err := x.BeginRebuild(t.Context(), 0)
		pipelinetest.Must(t, err)
		want("during the rebuild", false)
		_, err = x.EndRebuild(t.Context(), 0, token)
		pipelinetest.Must(t, err)
		want("after it", true)
		pipelinetest.Must(t, x.Client().Del(t.Context(), x.Key(0, "gen")).Err())
		want("after a loss of memory", false)
	})
}

func TestClaimIsLimitedAndAcksThePrevious(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a, b, c := pending("o", 1, 1), pending("p", 2, 1), pending("q", 3, 1)
		put(t, x, c, a, b)
		first := claim(t, x, 100, 2)
		diff(t, "first", first, protocol.Claim{Entries: entries(a, b), Next: at(3)})
		diff(t, "second", claim(t, x, 100, 2, first.Entries...), protocol.Claim{Entries: entries(c)})
		diff(t, "third", claim(t, x, 100, 2, entries(c)...), protocol.Claim{})
		listed, _, err := worldtest.OwnerEntries(t.Context(), x, 0, "p")
		pipelinetest.Must(t, err)
		diff(t, "an acked task stays in its owner's list", listed, entries(b))
	})
}

func TestAckKeepsAMovedMember(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a, b := pending("o", 1, 1), pending("o", 1, 1)
		put(t, x, a, b)
		claimed := claim(t, x, 1, 9).Entries
		put(t, x, moved(a, 1, 2)) // same time: only the version differs
		fenced, err := worldtest.Acknowledge(t.Context(), x, 0, 1, claimed)
		pipelinetest.Must(t, err)
		diff(t, "fenced", fenced, int64(0))
		diff(t, "claim", claim(t, x, 1, 9).Entries, entries(moved(a, 1, 2)))
	})
}

func TestAckTakesMoreThanOneScriptHolds(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		var all []task.Task
		for i := range task.MaxPerCall + 5 {
			all = append(all, pending("o", int64(i), 1))
		}
		put(t, x, all...)
		diff(t, "rest", claim(t, x, 1e6, 9, entries(all[1:]...)...).Entries, entries(all[0]))
	})
}

func TestOlderEpochIsFenced(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a := pending("o", 1, 1)
		put(t, x, a)
		as := func(epoch int64, acked ...protocol.Entry) protocol.Claim {
			c, err := x.Claim(t.Context(), 0, epoch, at(5), 0, 9, acked)
			pipelinetest.Must(t, err)
			return c
		}
		ack := func(epoch int64) int64 {
			fenced, err := worldtest.Acknowledge(t.Context(), x, 0, epoch, entries(a))
			pipelinetest.Must(t, err)
			return fenced
		}
		diff(t, "first", as(9), protocol.Claim{Entries: entries(a)})
		diff(t, "newer", as(10), protocol.Claim{Entries: entries(a)}) // as numbers, not as text
		diff(t, "zombie's claim", as(9), protocol.Claim{Fenced: 10})
		diff(t, "zombie's ack", ack(9), int64(10))
		diff(t, "zombie's ack and claim", as(9, entries(a)...), protocol.Claim{Fenced: 10})
		diff(t, "nothing was removed", as(10), protocol.Claim{Entries: entries(a)})
		diff(t, "a newer ack", ack(11), int64(0))
		diff(t, "fences too", as(10), protocol.Claim{Fenced: 11})
		diff(t, "big epochs", as(1<<52), protocol.Claim{})
		diff(t, "fence exactly", as(1<<52-1), protocol.Claim{Fenced: 1 << 52})
	})
}

func TestUndecodableMembers(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		a := pending("o", 3, 1)
		put(t, x, a)
		set(t, x, x.Key(0, "due"), "junk", protocol.Score(at(1).UnixMilli()))
		set(t, x, x.Key(0, "owner:o"), "junk", protocol.Score(at(2).UnixMilli()))
		set(t, x, x.Key(0, "owner:other"), index.Encode(a), protocol.ScoreOf(a))

		got := claim(t, x, 9, 9).Entries
		if len(got) != 2 || got[0].Err == nil || got[0].Member != "junk" || got[1].Err != nil {
			t.Fatalf("claim gave %+v, want junk with its Err, and a", got)
		}
		diff(t, "acked away", claim(t, x, 9, 9, got[0]).Entries, entries(a))

		bad := 0
		for _, e := range scanOwners(t, x, 0) {
			if e.Err == nil {
				continue
			}
			bad++
			seen := e
			e.Score++
			removed, err := x.Remove(t.Context(), 0, e)
			pipelinetest.Must(t, err)
			diff(t, "at another score", removed, false)
			removed, err = x.Remove(t.Context(), 0, seen)
			pipelinetest.Must(t, err)
			diff(t, "exactly", removed, true)
		}
		diff(t, "bad members", bad, 2)
		diff(t, "left", scanOwners(t, x, 0), entries(a))
		diff(t, "left in due", scanDue(t, x, 0), entries(a))
	})
}

func scanOwners(t testing.TB, x *index.Index, shard int) []protocol.Entry {
	t.Helper()
	return scan(t, func(cursor protocol.ScanCursor) ([]protocol.Entry, protocol.ScanCursor, error) {
		return x.ScanOwners(t.Context(), shard, cursor, 50)
	})
}

func scanDue(t testing.TB, x *index.Index, shard int) []protocol.Entry {
	t.Helper()
	return scan(t, func(cursor protocol.ScanCursor) ([]protocol.Entry, protocol.ScanCursor, error) {
		return x.ScanDue(t.Context(), shard, cursor, 50)
	})
}

func scan(t testing.TB, page func(protocol.ScanCursor) ([]protocol.Entry, protocol.ScanCursor, error)) []protocol.Entry {
	t.Helper()
	var all []protocol.Entry
	for cursor := (protocol.ScanCursor{}); ; {
		some, next, err := page(cursor)
		pipelinetest.Must(t, err)
		all = append(all, some...)
		if cursor = next; cursor.Done() {
			return all
		}
	}
}
