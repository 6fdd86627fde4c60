package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestChangedLooksAtEachVersionOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	row := w.insert(t, pending("ann", time.Hour))[0]
	row = w.save(t, w.moved(t, row, 2*time.Hour))
	w.put(t, row)
	c := new(changed)
	w.now = base.Add(sec(2))
	w.run(t, c.pass)
	looks := 0
	w.between(func() { looks++ })
	w.now = base.Add(sec(6))
	w.run(t, c.pass)
	if looks != 0 {
		t.Error("an unchanged row was compared again at once")
	}
}

// elsewhere is an index whose identity changes.
type elsewhere struct {
	Index
	name *string
	err  *error
}

func (e elsewhere) Identity(context.Context) (string, error) { return *e.name, *e.err }

func TestChangedWindowWidens(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(t *testing.T, w *world, c *changed, name *string, err *error){
		"after another server took over": func(t *testing.T, w *world, c *changed, name *string, _ *error) {
			for w.now.Before(base.Add(sec(60))) {
				w.now = w.now.Add(sec(4))
				w.run(t, c.pass)
			}
			*name = "replica"
			w.flush(t) // the new server lacks the last minute's entries
		},
		"after failed passes": func(t *testing.T, w *world, c *changed, _ *string, err *error) {
			*err = errors.New("away")
			for w.now.Before(base.Add(sec(60))) {
				w.now = w.now.Add(sec(4))
				if _, got := w.try(t.Context(), c.pass); !errors.Is(got, *err) {
					t.Fatalf("got %v, want %v", got, *err)
				}
			}
			*err = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{})
			name, err := "primary", error(nil)
			w.index = elsewhere{w.index, &name, &err}
			c := new(changed)
			w.now = base.Add(-time.Hour)
			w.run(t, c.pass)
			w.now = base
			row := w.insert(t, pending("ann", time.Hour))[0]
			row = w.save(t, w.moved(t, row, 2*time.Hour))
			w.run(t, c.pass) // the row changed too lately for this pass
			trouble(t, w, c, &name, &err)
			w.run(t, c.pass)
			w.wantStanding(t, "changed a minute ago", row, both(row))
		})
	}
}

// A server that comes back with a snapshot, or a replica that was cut off, lacks rows that changed long before the window.
func TestOldMemoryIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	name, err := "primary", error(nil)
	w.index = elsewhere{w.index, &name, &err}
	w.put(t, w.insert(t, many(3*sampleEntries)...)...)
	c := new(changed)
	looks := func(when string, want int64) {
		t.Helper()
		w.run(t, c.pass)
		if n := w.alarms.Load(); n != want {
			t.Errorf("%s: %d alarms, want %d", when, n, want)
		}
	}
	looks("a term that begins", 0)
	looks("the same server", 0)
	name = "snapshot"
	w.flush(t)
	looks("another server", 1)
	looks("the same server once more", 1)
	w.run(t, new(auditRows).pass)
	w.wantTruth(t)
	c, w.up = new(changed), auditAfter-time.Second
	w.alarms.Store(0)
	looks("a term that begins soon after the server's start", 1)
	looks("its next look", 1)
	w.flush(t)
	w.run(t, new(rebuild).pass)
	c = new(changed)
	looks("a term that has rebuilt every shard", 1)
	name, c = "replica", new(changed)
	w.up = auditAfter
	looks("another server than the term has filled", 2)
}
