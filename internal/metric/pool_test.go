package metric_test

import (
	"database/sql"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite" // a pool needs a driver

	"github.com/duetime/duetime/internal/metric"
)

// TestPoolIsShownUntilItIsHidden shows two pools of one name: the first one counts, and its end makes room for the second.
func TestPoolIsShownUntilItIsHidden(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	reg := metric.In("shop", registry)
	first, second := poolOf(t, 3), poolOf(t, 5)
	hide := metric.ShowPool(reg, "client", first)
	wantMaxOpen(t, registry, 3)
	metric.ShowPool(reg, "client", second)()
	wantMaxOpen(t, registry, 3)
	hide()
	wantMaxOpen(t, registry, -1)
	metric.ShowPool(reg, "client", second)
	wantMaxOpen(t, registry, 5)
	metric.ShowPool(nil, "client", second)()
}

func poolOf(t *testing.T, connections int) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(connections)
	return db
}

// wantMaxOpen wants the bound of the pool that is shown; -1 is none.
func wantMaxOpen(t *testing.T, from prometheus.Gatherer, want float64) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := -1.0
	for _, f := range families {
		if f.GetName() == "duetime_go_sql_max_open_connections" {
			got = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if got != want {
		t.Errorf("at most %v connections, want %v", got, want)
	}
}
