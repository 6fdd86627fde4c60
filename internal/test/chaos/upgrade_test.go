package chaos_test

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// TestRollingUpgrade rolls this version out over the one before the newest migration, and back again, while the game is
// played: first the schema, then one process after the other, so that each mixture of both versions is at work for a
// while. It measures time, so it is alone.
func TestRollingUpgrade(t *testing.T) {
	pipelinetest.Nightly(t)
	d := newDrill(t, setup{previous: true}, busy)
	began, schema := time.Now(), d.schemaVersion(t)

	d.Previous = false
	d.mixture(t, "this version's schema", func() { d.Migrate(t) })
	if after := d.schemaVersion(t); after <= schema {
		t.Fatalf("this version migrates the schema to %d, the previous one to %d: make a newer previous version by scripts/previous", after, schema)
	}
	d.roll(t, "this version's ")
	d.leader(t)

	d.Previous = true
	d.mixture(t, "the previous version's migrate up", func() { d.Migrate(t) })
	d.roll(t, "the previous version's ")
	d.leader(t)

	d.Previous = false
	d.wantAnswered(t, "all the while", began)
	if res := d.finish(t); !t.Failed() {
		t.Logf("%d calls, %d tasks, %d effects; lag p50 %v, p99 %v", res.calls, res.tasks, res.effects, rank(res.lags, 50), rank(res.lags, 99))
	}
}

// roll replaces one process after the other by one of the version that the world is at.
func (d *drill) roll(t *testing.T, version string) {
	t.Helper()
	for _, s := range d.all() {
		d.mixture(t, version+s.Name, func() { d.replace(t, s) })
	}
}

// mixture makes a change, waits until no task is late any more, and then until some took effect by what is now at work.
func (d *drill) mixture(t *testing.T, name string, change func()) {
	t.Helper()
	d.fault(t, name, mend, change)
	from := d.clock()
	pipelinetest.Await(t, "meals to end with "+name, func() bool {
		return d.count(t, `SELECT COUNT(*) FROM pet_journal WHERE event = 'meal_finished' AND at_ms > ?`, from) >= 20
	})
}

// schemaVersion returns the number of the last migration that was applied.
func (w *world) schemaVersion(t *testing.T) int {
	t.Helper()
	return w.count(t, `SELECT MAX(version_id) FROM duetime_migrations`)
}
