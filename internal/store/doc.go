// Package store owns all SQL of the pipeline: the tables duetime_tasks, duetime_epochs, duetime_layout, duetime_requests,
// duetime_history, duetime_blocks, duetime_handovers and duetime_processes, on MySQL 8, MariaDB from 10.6, and SQLite.
//
// What it promises:
//   - Every time is the database's, in Unix milliseconds; this process's clock is never used.
//   - Every session is READ COMMITTED. Rows are locked through the primary key, in id order, so two transactions of this
//     package never deadlock over them.
//   - LockFree never waits. Its result lacks both locked and missing rows; Get tells which of the two a row is.
//   - A transition is written only over the version from which it was computed: otherwise Write returns ErrConflict,
//     and the caller rolls back.
//   - A transaction that the server has rolled back can't be committed by a caller who overlooked the error (conn_tx.go).
//
// It never decides a transition (that is pkg/task), never retries, and starts one goroutine at most: it reads a layout that is
// older than a second again, for two seconds at most.
//
// A moment read by a statement that waits for a lock is the moment at which the statement began, not the one at which it
// got the lock. Only Now and LockFree, which don't wait, tell the current time.
//
// All methods are safe for concurrent use. An argument q is a *sqlx.Tx, *sqlx.Conn or *sqlx.DB; if a method's comment
// says so, nil means a connection of the pool.
//
// The files, by table:
//   - duetime_tasks, one row or many by id: columns.go declares the columns, from which every list of them is made.
//     insert.go, autocommit.go (statements that are transactions of their own), get.go, lock.go, write.go (transitions).
//   - duetime_tasks, ranges: pages.go (what sweeps read), floor.go (where these reads begin), owner.go (one owner's rows), list.go (what operators filter),
//     purge.go.
//   - duetime_tasks, figures: counts.go, stats.go, stats_live.go (what duetime top shows), audit.go (rows that are wrong).
//     Bounded reads for views: spans.go (counts and samples by time), ahead.go, lag_sample.go, dead.go.
//   - duetime_layout: layout.go, and shardchange.go, which also moves rows to other shards. duetime_epochs: epochs.go. duetime_requests: requests.go. duetime_history: history.go, acts.go (of operators).
//     duetime_handovers: handover.go. duetime_blocks: blocks.go. duetime_processes: processes.go. Migrations: migrate.go.
//
// The other files: store.go and open.go make a handle, session.go sets up its sessions. conn.go guards a connection, with
// conn_tx.go (lost transactions), conn_chain.go (COMMIT AND CHAIN), conn_rows.go and conn_stmt.go. primary.go reads from
// a server that may be written. product.go refuses servers that are not MySQL. classify.go and answers.go classify errors, errors.go has the errors that callers match.
// select.go runs SELECTs, dialect.go has the SQL that differs between MySQL and SQLite.
package store
