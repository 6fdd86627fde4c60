package index_test

import (
	"math"
	"testing"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/pkg/task"
)

// foreignScores are scores that no task has, but other programs can write.
var foreignScores = []string{"+inf", "-inf", "-1", "-5.5", "1e300"}

// write sets a task's score in both sets, without the scripts.
func write(t *testing.T, x *index.Index, of task.Task, score string) {
	t.Helper()
	for _, key := range []string{"due", "owner:" + of.Owner} {
		pipelinetest.Must(t, x.Client().Do(t.Context(), "ZADD", x.Key(of.Shard, key), score, index.Encode(of)).Err())
	}
}

// A score that no task can have neither wakes the dispatcher early nor keeps the true one out. It can be repaired,
// removed and acknowledged.
func TestForeignScoresAreBounded(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, x *index.Index) {
		for i, score := range foreignScores {
			a := pending("o", 10, 3000) // a version that a score without one would shut out
			write(t, x, a, score)
			seen := standings(t, x, a)[0]
			if seen.Due == protocol.NoScore || !(seen.Due >= 0) || seen.Due.RunAt().Before(at(-1e15)) {
				t.Errorf("%s: stands at %v", score, seen.Due)
			}
			c := claim(t, x, 0, 9)
			if next := c.Next; len(c.Entries) == 0 && !next.After(at(1e6)) {
				t.Errorf("%s: the next one is due at %v", score, next)
			}
			diff(t, score+": acknowledged", claim(t, x, 0, 9, c.Entries...).Entries, []protocol.Entry{})
			write(t, x, a, score)
			diff(t, score+": repaired", repair(t, x, protocol.Repair{Task: a, Seen: seen, Right: both(a)}), 1)
			write(t, x, a, score)
			put(t, x, a)
			diff(t, score+": put", standings(t, x, a), []protocol.Standing{both(a)})
			write(t, x, a, score)
			removed, err := x.Remove(t.Context(), 0, entryAt(a, seen.Due))
			pipelinetest.Must(t, err)
			diff(t, score+": removed", removed, true)
			write(t, x, a, score)
			put(t, x, ended(a, 3001))
			diff(t, score+": dropped", standings(t, x, a), []protocol.Standing{absent})
			if i == 0 {
				write(t, x, a, score)
				shards, err := x.Shards(t.Context(), 1)
				pipelinetest.Must(t, err)
				if !shards[0].Oldest.After(at(0)) {
					t.Errorf("%s: the oldest is of %v", score, shards[0].Oldest)
				}
				put(t, x, ended(a, 3001))
			}
		}
	})
}

func entryAt(of task.Task, score protocol.Score) protocol.Entry {
	e := entry(of)
	e.Score = score
	return e
}

func TestNoScoreIsOutOfBounds(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1 << 62} {
		if s := index.Decode("x", f).Score; !(s >= 0 && s <= 1<<41) {
			t.Errorf("%v was read as %v", f, s)
		}
	}
}
