// Package store owns the SQL of the pipeline, on MySQL 8, MariaDB from 10.6, and SQLite. Package pkg/console/internal/views has the
// statements that read for the console's views alone.
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
// The tables, with the migration that makes each, what a row is, who writes it, and its files:
//   - duetime_tasks (00001): a task. Services make and change tasks, workers end them, and the daemon moves and purges
//     them. Who reads tasks in any state reads duetime_ended too. columns.go declares the columns, from which every list of them
//     is made.
//     One row or many by id: insert.go, rowset.go (rows by id and key), autocommit.go (statements that are transactions of
//     their own), get.go, lock.go, write.go (transitions).
//     Ranges: pages.go (what sweeps read), floor.go (where these reads begin), walk.go, operation_walk.go, owner.go (one
//     owner's rows), list.go (what operators filter), purge.go.
//     Figures: counts.go, stats.go, stats_live.go (what duetime top shows), audit.go (rows that are wrong).
//   - duetime_ended (00023): a task that was done or cancelled a while ago. The daemon moves its row here, and purges it. ended.go
//   - duetime_epochs (00001): the newest term of an election. A process takes the next one when it begins to lead. epochs.go
//   - duetime_layout (00001): the namespace and the shards; one row. Migrate makes it, operators and the daemon change it.
//     layout.go, horizon.go, and shardchange.go, which also moves rows to other shards.
//   - duetime_requests (00002): what an operator asks of the processes, also that a queue be there. requests.go, queues.go
//   - duetime_pauses (00021): a pause of an owner or a kind until a time. Operators make it, and workers for their handlers;
//     the daemon deletes it. pauses.go
//   - duetime_history (00002): a line for people, by whoever changed the task, or by an operator. history.go
//   - duetime_handovers (00004): a partition of a queue, by the worker that has it or had it last. handover.go
//   - duetime_recurrences (00008): a recurrence. Services define it; who ends its newest task advances it. recurrences.go,
//     recurrence_columns.go
//   - duetime_operations (00009): a change of many tasks. Operators and services make it, the daemon carries it out.
//     operations.go
//   - duetime_limits (00010): what the workers of a queue share of its limit. Workers write it, and operators set the limit.
//     limits.go
//   - duetime_labels (00011): a label of a task. Services write it with a new task, and it is deleted with the task. labels.go
//   - duetime_blocks (00013): a blocked owner. Services and operators write it. blocks.go
//   - duetime_processes (00014): a running process, by the process itself. processes.go
//   - duetime_pending (00015): a view of pending tasks, for the queries of services. This package does not read it.
//   - duetime_orders (00016): a pending task that has an order key, by whoever writes the task. orders.go
//   - duetime_groups (00017): a group. Services make it, and who ends its last member ends it. groups.go
//   - duetime_group_parts (00017): a part of a group's counts, by whoever ends members. groups.go
//   - duetime_witness_plays (00020): a verdict on what was promised to the witness, by the daemon that leads. witness.go
//   - duetime_witness_effects (00020): an effect of a task of the witness, by the daemon that ran it. witness.go
//   - duetime_migrations: an applied migration. The migration library makes the table, and migrate.go runs it.
//
// The other files: store.go and open.go make a handle, session.go sets up its sessions. conn.go guards a connection, with
// conn_tx.go (lost transactions), conn_chain.go (COMMIT AND CHAIN), conn_rows.go and conn_stmt.go. primary.go reads from
// a server that may be written. product.go refuses servers that are not MySQL. classify.go and answers.go classify errors,
// errors.go has the errors that callers match. select.go runs SELECTs, transactions.go looks for old transactions, dialect.go
// has the SQL that differs between MySQL and SQLite.
package store
