package protocol_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// What a row keeps of a duration is never off by more than a sixteenth, and longer ones never seem shorter.
func TestRanKeepsDurations(t *testing.T) {
	t.Parallel()
	last := time.Duration(-1)
	for ms := int64(0); ms < 40*24*time.Hour.Milliseconds(); ms += 1 + ms/50 {
		d := time.Duration(ms) * time.Millisecond
		got, known := protocol.UnpackRan(protocol.Ran{Worker: 1, Taken: d}.Pack())
		if off := (got.Taken - d).Abs(); !known || off > d/16 || ms < 16 && off > 0 || got.Taken < last {
			t.Fatalf("%v is kept as %v, after %v", d, got.Taken, last)
		}
		last = got.Taken
	}
	endless, _ := protocol.UnpackRan(protocol.Ran{Worker: 1, Handler: 1 << 62, Taken: -time.Hour}.Pack())
	if endless.Handler < 100*24*time.Hour || endless.Taken != 0 {
		t.Errorf("durations beyond the bounds are kept as %+v", endless)
	}
}

func TestRanFitsTheRowsTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ whole, want time.Duration }{{100, 94}, {95, 89}, {3, 0}} {
		r := protocol.Ran{Hinted: 1, Taken: 90, Started: 2, Ended: 3, Handler: 2}
		r.Fit(c.whole)
		if want := (protocol.Ran{Hinted: 1, Taken: c.want, Started: 2, Ended: 3, Handler: 2}); r != want {
			t.Errorf("of %d: %+v, want %+v", c.whole, r, want)
		}
	}
}

func TestRanKeepsItsFieldsApart(t *testing.T) {
	t.Parallel()
	id := task.NewID()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	want := protocol.Ran{Worker: protocol.WorkerNumber(id.String()), Hinted: ms(1), Taken: ms(2), Started: ms(3), Ended: ms(4), Handler: ms(15)}
	if got, known := protocol.UnpackRan(want.Pack()); !known || got != want {
		t.Errorf("got %+v (%t), want %+v", got, known, want)
	}
	for _, id := range []string{"", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"} {
		n := protocol.WorkerNumber(id)
		if got, known := protocol.UnpackRan(protocol.Ran{Worker: n}.Pack()); n == 0 || !known || got.Worker != n {
			t.Errorf("worker %q has the number %d, kept as %d", id, n, got.Worker)
		}
	}
	for _, packed := range []int64{0, -1} {
		if got, known := protocol.UnpackRan(packed); known {
			t.Errorf("%d of another program is read as %+v", packed, got)
		}
	}
}
