package reconcile

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/task"
)

// After a switch-over the daemon's connections lead to the old primary, which can still be read. Its rows are stale:
// entries that services on the new primary put must stay.
func TestOldPrimaryRepairsNothing(t *testing.T) {
	t.Parallel()
	server := pipelinetest.OwnMySQL(t)
	dsn := server.NewSchema(t)
	w := newWorldOn(t, dsn, index.Config{Addrs: []string{pipelinetest.Redis(t).Addr()}}, Config{})
	admin, err := sqlx.Open("mysql", dsn)
	pipelinetest.Must(t, err)
	defer func() { _ = admin.Close() }()

	rows := w.insert(t, pending("ann", time.Hour), pending("bob", sec(20)), pending("cid", -time.Minute))
	w.put(t, rows...)
	_, err = admin.ExecContext(t.Context(), "SET GLOBAL read_only = ON")
	pipelinetest.Must(t, err)
	moved := make([]task.Task, len(rows)) // on the new primary alone
	for i, row := range rows {
		moved[i] = w.moved(t, row, 2*time.Hour)
	}
	made := pending("dan", time.Minute)
	w.put(t, append(moved, made)...)

	term := &worldtest.Term{}
	for _, p := range w.passes() {
		if _, _, err := w.runOnce(t.Context(), p, 1, term); err == nil || !w.rows.Unavailable(err) {
			t.Errorf("%s: %v, want unavailable", p.name, err)
		}
		if _, err := w.try(t.Context(), p.run); err != nil && !w.rows.Unavailable(err) { // as if the pass had begun before the switch-over
			t.Errorf("%s: %v, want unavailable", p.name, err)
		}
	}
	for _, pass := range []func() error{
		func() error { _, err := w.try(t.Context(), w.auditRows().pass); return err },
		func() error { _, err := w.try(t.Context(), w.auditIndex().pass); return err },
		func() error {
			return w.compensate(t.Context(), []protocol.Compensation{{IDs: []task.ID{rows[0].ID, made.ID}}})
		},
	} {
		if err := pass(); err == nil || !w.rows.Unavailable(err) {
			t.Errorf("a pass on the old primary answers %v, want unavailable", err)
		}
	}
	for _, row := range append(moved, made) {
		w.wantStanding(t, row.Owner, row, both(row))
	}
	if n, _ := term.Seen(); n > 0 {
		t.Errorf("%d passes counted as progress", n)
	}

	_, err = admin.ExecContext(t.Context(), "SET GLOBAL read_only = OFF")
	pipelinetest.Must(t, err)
	for _, p := range w.passes() {
		_, _, err = w.runOnce(t.Context(), p, 1, term)
		pipelinetest.Must(t, err)
	}
}
