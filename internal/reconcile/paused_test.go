package reconcile

import (
	"testing"
	"time"

	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func TestHistoryIsPurgedWithTheRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	row := w.insert(t, pending("ann", time.Hour))[0]
	for i, age := range []time.Duration{169 * time.Hour, 167 * time.Hour} {
		pipelinetest.Must(t, w.rows.Record(t.Context(), nil, []protocol.Event{{At: base.Add(-age), Task: row.ID, Detail: string(rune('a' + i))}}))
	}
	w.run(t, newPurge(w.Reconciler).pass)
	left, err := w.rows.History(t.Context(), row.ID, 10)
	pipelinetest.Must(t, err)
	if len(left) != 1 || left[0].Detail != "b" {
		t.Errorf("left: %v", left)
	}
}
