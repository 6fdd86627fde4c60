// Package store owns all SQL of the pipeline: the tables duetime_tasks, duetime_epochs, duetime_layout, duetime_requests and
// duetime_history, on MySQL 8, MariaDB from 10.6, and SQLite.
//
// What it promises:
//   - Every time is the database's, in Unix milliseconds; no clock of this process is asked.
//   - Every session is READ COMMITTED. Rows are locked through the primary key, in id order, so two transactions of
//     this package never wait for each other in a ring.
//   - LockFree never waits. What it skipped and what is missing look alike; Get tells them apart.
//   - A transition is written only over the version it was computed from: Save and Finish answer ErrConflict otherwise,
//     and the caller rolls back.
//   - A transaction that the server has given up can't be committed by anyone who overlooked it (guard.go).
//
// It never decides a transition (that is pkg/task), never retries, and never starts a goroutine.
//
// A moment read by a statement that waits for a lock is the moment at which the statement began, not the one at which
// it got the lock: learn the clock from Now or LockFree alone.
//
// All methods are safe for concurrent use. An argument q is a *sqlx.Tx, *sqlx.Conn or *sqlx.DB; where it says so, nil
// means a connection of the pool.
package store
