package chaos_test

import (
	"database/sql"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// sessionRows have a MySQL whose defaults, or whose place, are other than a program would think.
func sessionRows() []entry {
	return []entry{{
		n: 31, fault: "autocommit=0 and completion_type=1 as server defaults",
		setup: setup{mysql: []string{"--autocommit=0", "--completion-type=CHAIN"}}, alone: true, run: defaultsChanged,
	}, switchedRow()}
}

// defaultsChanged has each process meet the defaults with connections old and new, and with transactions that broke off.
func defaultsChanged(t *testing.T, d *drill) {
	t.Helper()
	time.Sleep(d.setup.meal)
	d.fault(t, "MySQL restarted", 10*time.Second, func() {
		d.someDue(t)
		pipelinetest.Must(t, d.mysql.Kill())
		pipelinetest.Must(t, d.mysql.Start())
	})
	d.fault(t, "worker killed", 10*time.Second, func() {
		d.someDue(t)
		pipelinetest.Must(t, d.workers[0].Kill())
		d.restart(t, d.workers[0])
	})
	time.Sleep(d.setup.meal)
}

// switchedRow has a MySQL with a semi-synchronous replica, which an operator puts in its place. The old primary lives on,
// can be read, and keeps the connections that it has.
func switchedRow() entry {
	var replica *pipelinetest.MySQLServer
	var name *pipelinetest.Name
	return entry{
		n: 32, fault: "a MySQL replica promoted while the old primary lives on read-only", alone: true,
		setup: setup{servers: func(t *testing.T, w *world) {
			t.Helper()
			w.mysql, replica = replicated(t)
			name = pipelinetest.OwnName(t, w.mysql.Addr())
			w.front = name.Addr()
		}},
		run: func(t *testing.T, d *drill) {
			t.Helper()
			was, is := admin(t, d.mysql), admin(t, replica)
			d.fault(t, "switched over", replacedWithin, func() {
				time.Sleep(d.setup.meal)
				run(t, was, "SET GLOBAL super_read_only = ON")
				var done string
				pipelinetest.Must(t, was.QueryRowContext(t.Context(), "SELECT @@global.gtid_executed").Scan(&done))
				var late int
				pipelinetest.Must(t, is.QueryRowContext(t.Context(), "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 60)", done).Scan(&late))
				if late != 0 {
					t.Error("the replica did not get all that was committed")
				}
				run(t, is, "STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
				name.Point(replica.Addr())
				d.db.SetMaxIdleConns(0) // the oracle goes along
			})
			var open int
			pipelinetest.Must(t, was.QueryRowContext(t.Context(),
				"SELECT COUNT(*) FROM "+pipelinetest.Connections(t)+" WHERE DB IS NOT NULL").Scan(&open))
			d.note(t, "%d connections are left at the old primary", open)
		},
	}
}

// replicated starts two servers of which the second follows the first, and has all that the first has acknowledged.
func replicated(t *testing.T) (primary, replica *pipelinetest.MySQLServer) {
	t.Helper()
	common := []string{"--log-bin=bin", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"}
	primary = pipelinetest.OwnMySQL(t, append(common, "--server-id=1", "--plugin-load-add=semisync_source.so",
		"--loose-rpl-semi-sync-source-enabled=ON", "--loose-rpl-semi-sync-source-timeout=3600000")...)
	if primary.Product() != "mysql9" {
		t.Skip("of these servers only MySQL 9 comes with semi-synchronous replication")
	}
	replica = pipelinetest.OwnMySQL(t, append(common, "--server-id=2", "--plugin-load-add=semisync_replica.so",
		"--loose-rpl-semi-sync-replica-enabled=ON")...)
	host, port, err := net.SplitHostPort(primary.Addr())
	pipelinetest.Must(t, err)
	run(t, admin(t, replica), "SET GLOBAL super_read_only = ON",
		fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '%s', SOURCE_PORT = %s, SOURCE_USER = 'root', SOURCE_AUTO_POSITION = 1, "+
			"GET_SOURCE_PUBLIC_KEY = 1, SOURCE_SSL = 0, SOURCE_CONNECT_RETRY = 1", host, port), "START REPLICA")
	p := admin(t, primary)
	pipelinetest.Await(t, "the replica", func() bool {
		var name string
		var clients int
		pipelinetest.Must(t, p.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'Rpl_semi_sync_source_clients'").Scan(&name, &clients))
		return clients == 1
	})
	return primary, replica
}

// admin is a handle on a server without a schema.
func admin(t *testing.T, s *pipelinetest.MySQLServer) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+s.Addr()+")/")
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := db.ExecContext(t.Context(), statement)
		pipelinetest.Must(t, err)
	}
}
