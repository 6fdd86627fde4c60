// Package schedule is the door for services: it makes, moves and takes back tasks in the service's own database
// transaction, and tells the index about them after the commit.
//
// It promises that a task exists exactly when the transaction that scheduled it committed, and that a change which it
// answered with yes holds. It never decides anything by the index, and never lets the index's health change an answer.
//
// # The protocol
//
//  1. A transaction begins (intx.go, join.go): [Client.InTx] begins one at READ COMMITTED; [Client.Join] takes part in the
//     caller's own, whose session must be at READ COMMITTED too.
//  2. New rows are written by [Tx.ScheduleMany] (tx_schedule.go), after Config.BeforeSchedule has seen their specs
//     (before.go). Each change (tx_change.go: changeMany, changeOwner) locks the task's row FOR UPDATE, so that it reads what
//     is committed now. It computes the transition by the pure functions of internal/transition, and writes it with
//     version+1. Under the lock a task is either changed before its effect, or answered with "already done": there is nothing
//     in between.
//  3. Each change joins the list of what this try does (internal/ledger: Tx). What a rolled-back try did is forgotten with its list,
//     for its versions never existed.
//  4. COMMIT (internal/ledger: Run), once Config.InChange has agreed (changes.go). This alone decides. Its answer is yes, a definite no, or
//     lost (below). After a yes Config.OnChange hears of it.
//  5. After a yes the touched tasks are put into the index (internal/ledger: Follow; internal/indexwriter: Enqueue), in one call
//     with those of all callers who wait at that moment. The caller is answered meanwhile, for the index decides nothing.
//     Callers that schedule faster than the index accepts are slowed down. A change of one task by Client waits for its put,
//     and a list (list_all.go, list_page.go) for the puts before it, for at most Config.IndexWait. A joined transaction with more
//     than one change reads its rows first (internal/ledger: FollowCommitted): a ROLLBACK TO on the caller's own handle, as in a
//     nested transaction of bun or GORM, takes changes back unseen.
//  6. A put that fails is tried once more; then its ids go to the compensation topic, and the daemon indexes the rows.
//     Repeated failures open a circuit breaker. The steps of this are told by internal/indexwriter.
//
// # Calls of one task
//
// Client's own Schedule, Reschedule, Shift and Cancel need no transaction of their own: calls that come at the same time share
// statements that are transactions of their own (autocommit.go, gathered by internal/batcher). Two of these are under way at
// once, and the next takes all callers that wait: nobody waits for company, and many callers cost the database little more
// than one.
//
//  1. New rows go in one INSERT (insertRows). With Config.InChange each call has a transaction of its own instead.
//  2. Changes lock the rows that are free, by SKIP LOCKED (changeRows): a row that somebody holds is left to a transaction of its
//     caller's own, so that it is in nobody else's way. A single change is two statements (changeRow).
//  3. The ledger hands the tasks to internal/indexwriter (Enqueue, PutDirectly).
//  4. Each caller has its own answer (conclude); only a lost one is everybody's. A caller whose context ends while it waits has
//     changed nothing; later the answer is [ErrCommitUnknown].
//
// # Blocked owners
//
// A row of duetime_blocks keeps an owner from having tasks (block.go). The row is read where it costs no round trip of its own, and
// nothing is locked for it:
//
//  1. [Client.BlockOwner] commits the row. Every call that makes tasks, and begins from now on, reads it and answers
//     [task.ErrOwnerBlocked]: in the statement that reads the clock (nowUnlessBlocked), in the INSERT of calls of one task
//     (store: InsertAutocommit, which the server then refuses as a whole, so that each caller goes on by a transaction of its own),
//     and at the retry of a dead task (store: Write). The INSERT asks only once in a quarter of a second: whoever has committed a
//     block waits for a little longer ([Client.InTx], [Joined.Commit] and [Joined.Index] do), before it goes on.
//  2. Then it stops recurrences and cancels pending tasks, in transactions (endOwner). A worker that claimed before step 1 holds the
//     task's row: the cancel waits for it, and takes what its handler has made. So a worker need not ask again for owners of whom it
//     has locked a pending task (assumeUnblocked).
//  3. A transaction that asked before step 1 may commit after step 2. The statement of a worker's claim begins after that commit,
//     and says that the owner is blocked: the worker cancels the task. The daemon does the same for tasks that are not due, and stops
//     recurrences, of owners blocked within the last hour (inside.go: EndBlocked).
//  4. [Client.UnblockOwner] locks the row, cancels what is left, and deletes the row, in one transaction: nothing of before the block
//     that is committed by then runs after it.
//
// [Tx.BlockOwner] commits the row after step 2. A task that was made in between, and is being run at the commit, may take effect
// after it.
//
// # The history
//
// What a change means to people (moved by how much, replaced, cancelled) becomes a line of the history (internal/ledger: history.go): from a
// bounded buffer, in bulk every 200 ms and at Close, after the commit, so that a change of one task stays the one statement
// that it is. Lines that don't fit, or that the database refuses, are dropped and counted. The history is for people: it may
// miss the last moment before a crash, and a change whose COMMIT's answer was lost. The row is the truth. The console must not
// miss its own lines, and writes them into the transaction (internal/ledger: Record).
//
// # What is decided where
//
// "Now" is the database's clock, read once in each transaction. States and versions are decided by the row under its
// lock. Uniqueness by key is decided by the row's unique index. Redis, Kafka and the clock of this process decide
// nothing.
//
// # Deadlocks and lock waits
//
// The server answers a deadlock by rolling back the whole transaction and leaving the connection open: each later
// statement would commit by itself. So a transaction is over after a deadlock or a lock wait, whatever the caller did
// with the error:
//
//  1. In InTx the store's connection refuses every statement and the COMMIT until the ROLLBACK; InTx then runs the whole
//     transaction again, with jitter, bounded by ctx and Config.MaxTries.
//  2. Join has the caller's own connection, which knows nothing of this (join.go: checkOpen). At its first change it sets a savepoint and
//     goes back to it; before each later change it sets and releases one. Outside a transaction there is nothing to go back to or to
//     release. Commit releases the first savepoint, which a rollback in between has taken away. Either answers
//     [ErrRolledBack]. A ROLLBACK TO or a RELEASE of a savepoint that the caller set before Join's first use takes it away
//     as well: set such savepoints after it. A handler that [Tx.SettleDue] calls there is promised what it has in a worker:
//     before a statement whose predecessor answered an error, or answered past this package, the same is asked
//     (tx_statement.go: checkDoubt). Only runs of a prepared statement go unasked; the next statement of another form is
//     refused.
//  3. A lock wait that ends at a task's own row means that somebody works on this task for longer than the session's
//     lock wait (an outside handler): the answer is [task.ErrRunning] at once, without another try.
//
// # A COMMIT whose answer is lost
//
// It may have committed or not. Running fn again would repeat its other writes, so InTx never does: it answers
// [ErrCommitUnknown] and sends the touched ids to compensation, so that the tasks are indexed if they exist. A caller who
// wants to repeat the call writes a unique operation key first in fn, and finds it there the next time. A task's id is
// made before it is scheduled: scheduling the same Spec again is scheduling one task.
//
// # Lock order
//
// Task rows first, in id order, then business rows; a keyed task is scheduled before business rows are locked. A bulk
// call locks in id order by itself; several calls in one transaction are the caller's to order. The worker locks in the
// same order: the task's row, then what the handler touches. A service that knows the task only through its business row
// reads that row unlocked, changes the task, locks the row, and checks that it still names the task.
package schedule
