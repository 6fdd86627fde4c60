package duetimetest

import (
	"database/sql"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	engine "github.com/duetime/duetime/internal/worker"
	"github.com/duetime/duetime/pkg/schedule"
)

// A method of the store that returns the database's time would put a handler's transaction back to the present.
func TestEachTimeIsOfFiresClock(t *testing.T) {
	t.Parallel()
	wrapper := reflect.TypeFor[*ahead]()
	times := 0
	methods := slices.Concat(slices.Collect(reflect.TypeFor[engine.Store]().Methods()), slices.Collect(reflect.TypeFor[schedule.Store]().Methods()))
	for _, m := range methods {
		if !slices.Contains(slices.Collect(m.Type.Outs()), reflect.TypeFor[time.Time]()) {
			continue
		}
		times++
		own, _ := wrapper.MethodByName(m.Name)
		entry := own.Func.Pointer()
		// What is promoted from an embedded field is in no file: the compiler has generated it.
		if file, _ := runtime.FuncForPC(entry).FileLine(entry); filepath.Base(file) != "clock.go" {
			t.Errorf("%s returns the database's time: give it a version in clock.go", m.Name)
		}
	}
	if times < 4 {
		t.Errorf("found %d methods that return a time, want Now, Clock, LockFree and LockOwner at least", times)
	}
}

// A task that Fire has seen may be ended beside it, as by another Fire.
func TestMomentWithoutTasks(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "shop.db"))
	pipelinetest.Must(t, err)
	t.Cleanup(func() { pipelinetest.Must(t, db.Close()) })
	Migrate(t, sqlx.NewDb(db, "sqlite"))
	f := &firing{store: &ahead{tables: opened(t, sqlx.NewDb(db, "sqlite"))}, until: time.Now()}
	if err := f.moment(t.Context(), time.Now()); err != nil || len(f.fired) > 0 {
		t.Errorf("%d runs of no task, %v", len(f.fired), err)
	}
}
