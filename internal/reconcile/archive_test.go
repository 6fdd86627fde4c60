package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// While Redis is away the changed pass looks back to where it stopped. What ended meanwhile has to stand where that pass looks for it.
func TestArchiveLeavesWhatTheChangedPassHasToCompare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{Retention: 24 * time.Hour})
	name, away := "primary", error(nil)
	w.index = elsewhere{w.index, &name, &away}
	c := new(changed)
	row := w.insert(t, pending("ann", 48*time.Hour))[0]
	w.put(t, row)
	w.run(t, c.pass)

	away = errors.New("away")
	w.now = base.Add(time.Minute)
	row = w.save(t, w.cancelled(t, row)) // by SQL of another program, or by one that was killed before its put
	for w.now.Before(base.Add(20 * time.Minute)) {
		w.now = w.now.Add(time.Minute)
		if _, err := w.try(t.Context(), c.pass); !errors.Is(err, away) {
			t.Fatalf("got %v, want %v", err, away)
		}
		w.run(t, w.archive)
	}
	away = nil
	w.run(t, c.pass)
	w.wantStanding(t, "cancelled while Redis was away", row, protocol.Standing{Due: protocol.NoScore, Owner: protocol.NoScore})
}
