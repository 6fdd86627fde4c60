package bench_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// stand has n more jobs stand far off, while the system already works. duetime's rows are as if they had been made an hour
// ago, and its index is rebuilt with them: its daemon compares whatever was made within the last minutes, which is not
// what is measured. Nor should it take them for drift, and audit everything beside what is measured: it is away until all
// are there. Systems whose queues a bulk has kept busy come to rest, and databases have written it.
func (w *world) stand(n int64) {
	w.Helper()
	if !ours(w.system) {
		w.preload(n, 1)
	} else {
		w.indexAnew(func() { w.plant(n) })
	}
	w.quieten()
}

// indexAnew changes rows while the daemon is away, and has it fill the index again.
func (w *world) indexAnew(change func()) {
	w.Helper()
	w.daemon.Stop(w)
	change()
	w.ask(func(x *index.Index, shards int) {
		all := make([]int, shards)
		for i := range all {
			all[i] = i
		}
		pipelinetest.Must(w, x.Unmark(w.Context(), all))
	})
	w.daemon = w.ready("daemon")
	w.awaitWhole()
}

// quieten waits until the databases have written what a bulk has left.
func (w *world) quieten() {
	w.Helper()
	w.written()
	if w.redis != nil {
		w.await(restLimit, "Redis to have rewritten its log", func() bool { return w.info("persistence", "aof_rewrite_in_progress") == 0 })
	}
}

// written has the databases write what a bulk has left in their memory. That of an hour ago would long be written; here it
// would fill their logs, and be written in the middle of what is measured next.
func (w *world) written() {
	w.Helper()
	if w.env.Postgres != "" {
		db, err := pgx.Connect(w.Context(), w.env.Postgres)
		pipelinetest.Must(w, err)
		_, err = db.Exec(w.Context(), "CHECKPOINT")
		pipelinetest.Must(w, errors.Join(err, db.Close(w.Context())))
	}
	w.exec("SET GLOBAL innodb_io_capacity_max = 20000, GLOBAL innodb_io_capacity = 20000, GLOBAL innodb_max_dirty_pages_pct = 0")
	w.await(wholeLimit, "MySQL to have written all", func() bool {
		var name string
		var dirty int
		pipelinetest.Must(w, w.db.QueryRowContext(w.Context(), "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").Scan(&name, &dirty))
		return dirty < 500 // some change all the time
	})
	w.exec("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT, GLOBAL innodb_io_capacity = DEFAULT, GLOBAL innodb_io_capacity_max = DEFAULT")
}

// plant writes rows as a service would have written them an hour ago.
func (w *world) plant(n int64) {
	w.Helper()
	const connections, part = 2, 50_000
	began := time.Now()
	var group errgroup.Group
	group.SetLimit(connections)
	for first, end := w.next, w.next+n; first < end; first += part {
		numbers := pipelinetest.Numbers(first, min(first+part, end)-1)
		group.Go(func() error {
			_, err := w.db.ExecContext(w.Context(), fmt.Sprintf(`
				INSERT INTO duetime_tasks (id, kind, owner, queue, shard, due_at, run_at, payload, created_at, updated_at, finished_at)
				SELECT UNHEX(CONCAT('01970000000070008', LPAD(HEX(seq), 15, '0'))), 'pet.meal', seq, 'default',
				       CRC32(seq) MOD shards, now + %[2]d + seq, now + %[2]d + seq,
				       CONCAT('{"id":', seq, ',"due":', (now + %[2]d + seq) * 1000, '}'), now - 3600000, now - 3600000, 0
				FROM duetime_layout, (SELECT `+rawNow+` AS now) AS clock, %[1]s ORDER BY seq`, numbers, farOff.Milliseconds()))
			return err
		})
	}
	pipelinetest.Must(w, group.Wait())
	w.next += n
	w.Logf("%d rows planted in %v", n, time.Since(began).Round(100*time.Millisecond))
}
