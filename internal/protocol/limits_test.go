package protocol_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

func TestScoreIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		ms := rapid.Int64Range(0, 1<<41-1).Draw(r, "ms")
		version := rapid.Int64Range(1, 1<<40).Draw(r, "version")
		s := protocol.ScoreOf(task.Task{RunAt: time.UnixMilli(ms), Version: version})
		if got := s.RunAt().UnixMilli(); got != ms {
			r.Fatalf("time %d, want %d", got, ms)
		}
		if got := s.Version(); got != version%protocol.VersionWindow {
			r.Fatalf("version %d, want %d", got, version%protocol.VersionWindow)
		}
	})
}

func TestScoreTellsNeighboursApartToTheLastMillisecond(t *testing.T) {
	t.Parallel()
	last := task.Task{RunAt: time.UnixMilli(1<<41 - 1), Version: protocol.VersionWindow - 1}
	before, round := last, last
	before.Version--
	round.Version++
	if protocol.ScoreOf(before) >= protocol.ScoreOf(last) || float64(protocol.ScoreOf(last)) >= 1<<41 {
		t.Errorf("scores %v, %v", protocol.ScoreOf(before), protocol.ScoreOf(last))
	}
	if got := protocol.ScoreOf(round); got != 1<<41-1 {
		t.Errorf("the window begins anew at %v, want %d", got, int64(1<<41-1))
	}
	if got := protocol.ScoreOf(transition.Finish(last, last.RunAt)); got != protocol.NoScore {
		t.Errorf("a finished task has score %v", got)
	}
}
