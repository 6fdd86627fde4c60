package metric

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// CountFull returns a function that counts an answer of MySQL that its disk is full. Reading works on a full disk, so
// duetime_server_up stays 1.
func CountFull(reg prometheus.Registerer) (count func()) {
	return Shared(reg, prometheus.NewCounter(prometheus.CounterOpts{
		Name: metricPrefix + "database_full_total", Help: "Statements that MySQL refused because its disk is full.",
	})).Inc
}

// ShowPool registers what database/sql counts of a pool of connections, under a name. hide takes it back, before the pool is
// closed. A nil reg registers nothing. If a pool of the name is shown already, as by another client of the process, that one
// stays.
func ShowPool(reg prometheus.Registerer, name string, db *sql.DB) (hide func()) {
	if reg == nil {
		return func() {}
	}
	reg = prometheus.WrapRegistererWithPrefix(metricPrefix, reg)
	pool := collectors.NewDBStatsCollector(db, name)
	if reg.Register(pool) != nil {
		return func() {}
	}
	return func() { reg.Unregister(pool) }
}
