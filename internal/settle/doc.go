// Package settle settles a batch of hints in transactions of MySQL. One transaction locks the tasks' rows, has the
// handlers' effects, and marks the rows done.
//
// It owns the protocol "settle", below. It promises that an effect through a Call takes place exactly once and never
// before its time, even if hints are lost, repeated or late; that a failing task is charged by itself; and that a task
// that ends its process is charged too. It never decides by a hint, never puts a task into the index under the version
// that its row has, and never charges a task for a failure of MySQL or of another task, or for a stop of the worker.
//
// The files: decide.go finds the verdict, without a server · apply.go carries verdicts out · order.go has tasks wait for earlier
// ones of their order key · pauses.go knows who is paused · charge.go changes attempts ·
// transaction.go locks, marks done and commits · recurrence.go makes the next ticks · run.go and invoke.go call handlers ·
// blame.go and loss.go find out whose fault a failure is · batch.go decides what follows a failed transaction · events.go
// reports what became of tasks.
//
// # The protocol "settle"
//
// A member of a transaction is decided (its verdict is known), waiting (due, its handler has not run), ran, or marked
// (its row says done).
//
//  1. Lock. One transaction locks the rows that are free, by primary key, in id order, in any state, and asks for the
//     database's time, and for blocked owners, in the same statement.
//  2. Decide, by each row alone. Missing row: settle (the daemon's audit drops the entry, which the hint can't name). Row
//     locked by another transaction: hold for 100 ms, or drop the hint if a look found the task. Ended task: settle, and
//     drop the entry. Pending, of a blocked owner: cancel (package schedule has the protocol). Pending but not due: hold for
//     the remaining time if the row has the hint's version, else settle and put the row. Due: run, or cancel if the first run
//     would begin after its kind's catch-up window. Due, and paused by its owner or kind: put off to the pause's end. In a
//     probe of a queue with a rate (Hint.NoSlot) due tasks do not run: hold.
//  3. Charge suspects, in a transaction of their own, before any of them runs.
//  4. Run the handlers, which decode the payloads, in the order of (due_at, id); the locks of step 1 stay in id order. After
//     Config.BatchTime of handlers, the remaining hints are held. A task that a handler moved or cancelled does not run, and a
//     task with an order key does not run while an earlier one of its key is pending (race 15).
//  5. Mark done the tasks that ran, in one statement that must change exactly that many rows. Record tasks that did not
//     simply fire in the history, in one statement. Commit.
//  6. Apply. Hints are settled or held; puts, dead letters, metrics and events follow. Only a committed transaction's
//     findings count.
//
// When a handler fails, its transaction is rolled back, and all others run once more, with a savepoint for each call. The
// failing task is charged an attempt in that transaction without running. A batch handler's call is halved, between
// savepoints, until the failing task is by itself. Tasks that failed before have a lane and runners of their own, so that
// succeeding tasks never wait for them.
//
// # Invariants
//
//  1. A handler runs only while its transaction holds the row lock, and the row said pending and due under that lock.
//  2. At the commit every row whose handler ran is marked done, or was moved by the handler itself.
//  3. A handler of a task with an order key runs only while no earlier task of the key, by (due_at, id), was pending when the task's row
//     had been locked. What commits after that, a new task or a move, counts as later.
//  4. An attempt is charged only for an error of the handler, for its timeout, for connections that the task loses by
//     itself while MySQL answers others, or to a suspect beforehand.
//
// # Races that shaped it
//
//  1. A deadlock rolls back the effects of all earlier handlers, and its handler may swallow the error: then later
//     statements would commit one by one. So whether an error is the handler's fault is asked of the transaction. Once a
//     transaction was lost, the store's connection refuses every statement, and the whole batch runs once more, uncharged. A
//     reader's transaction may be on a connection of the service's: there package schedule asks the server before a handler's
//     statement that follows an error, and the reader's savepoint is gone, so that the call answers "rolled back".
//  2. A handler cancels or moves another task of the batch. If that task has not run, the handler was answered yes, so
//     the task must not run. If it has run, the answer must be "already done": before a handler's first statement on
//     tasks, the tasks that ran are marked done. A handler that moves its own task leaves it pending. A task that is to end
//     without running, as one that is too late, is written before any handler runs; a reader writes it in its turn, unless a
//     handler has changed it before.
//  3. UPDATE … WHERE id IN (p, p) counts a row once. So a batch call has one task of each owner and subject.
//  4. An outside effect precedes the commit. An outside task runs by itself, with its row locked: a cancel waits for the
//     lock and then answers "running". Between two attempts the row is free: a cancel answers yes, although the attempt that
//     failed may have had its effect.
//  5. A task that ends its process would never be charged, and each restart would run it. So hints that were due before
//     their partition was assigned are suspects, and so are tasks that were due already when a look found them: an
//     attempt is charged in a committed transaction before the handler runs. At the first charge suspects may share a
//     batch, so that a rebalance costs one statement per batch. Suspects that were charged before run one at a time, of
//     all queues of the worker, so that one culprit never gets an innocent task charged twice. Several workers may have
//     found one suspect: between its charge and its run the row is free for a moment. So a suspect that another worker
//     has just charged is held, outside of any transaction that runs others, and a charge whose run does not come in the
//     next transaction is refunded in it. A suspect whose attempts are used up is dead without a run. A charge without a
//     complete run is refunded if the worker stops. A worker that leaves a partition with nothing running records this in
//     a row that names it as the holder, and the next worker has no suspects there; a crash leaves no such row. A task
//     must not die of charges if perhaps none of them was followed by a run: so its last attempt is begun once more, and
//     the row says so, with the worker's name.
//  6. The acknowledgement after a claim removes the entry with the claimed score. It would remove an early hint's task that
//     was put under the same version, which would be lost until a sweep; with clocks apart, claim and put would repeat
//     without end. So an early hint is held.
//  7. A row that another transaction has locked would make the batch wait while it holds 100 locks. Such rows are skipped.
//  8. A commit whose answer was lost may have taken effect. The next look at the rows tells.
//  9. A handler that ignores its context keeps its connection. Every statement through its Call ends with its context. If
//     the handler does not return, it is abandoned and its transaction is lost. After three abandoned handlers the worker
//     ends. The context ends after the kind's timeout, or the worker's, which is the longest: sessions outlive that one.
//     To decode a payload is a part of the call, since types and codecs are the service's code. Decoded by the runner, before
//     the charge of a suspect, one payload would end each worker that reads its row, uncharged, or hold it for ever.
//  10. A handler's statement that ends its connection looks as if MySQL were away: the gate would close for all queues,
//     and the batch would run without end, uncharged. So a probe writes on another connection. If the probe succeeds, each
//     hint whose handler was called counts a loss: after the second loss the tasks run by themselves, after the fourth the
//     task is charged. An outside task is charged at the first loss, since its handler has acted already. Until that charge its
//     row is free. So a suspect of such a handler is held for a second after the first look, outside of any transaction that
//     runs others: a worker that looks in the very moment of a loss would call the handler once more than it is charged.
//  11. A handler's context ends while a result is open, or during a statement whose error the handler ignores. The driver
//     closes the connection, and the next task's statement would notice and be charged. So results are closed with their
//     handler. If several handlers were called before the connection closed, it counts as a loss, as in 10.
//  12. A handler runs COMMIT, in any words. Effects before it would last while the rows are not marked done, and later
//     statements would commit one by one. Or it goes back to a savepoint of before its batch-mates' marks. Or it changes the
//     session that they share. So a call may read and change rows freely; before any other statement the tasks that ran are
//     marked done and a savepoint is set, which the end of the call releases. statement.go has the rules.
//  13. A tick's task ends, and its recurrence makes the next one in the same transaction: recurrences are locked right after
//     the tasks, before handlers lock rows of the service. A recurrence that somebody else has locked holds its task up, as a
//     locked row does. If overlaps are allowed, the next task is made in a transaction before, so that no lock is held while
//     the handler runs.
//  14. While MySQL is away, nothing may be charged or expire. So the gate is closed, all work pauses, and patience begins
//     anew when the gate opens.
//  15. Two workers hold A and B of one order key, A first. B must see A pending while A's transaction is open. So the check of B comes after
//     the lock of B's row, and reads A without a lock and without SKIP LOCKED: what is committed says pending until A's COMMIT. B is held for
//     A, and woken by A's end in the same worker (package hold). If A waits for its next try, or is due for seconds without an end, B's row
//     gets a later try and says for whom it waits, so that its hint keeps no offsets back; whoever ends A, or a later task of the key,
//     or makes A later, gives B a try at once after the commit: the worker of A or of a handler that cancels A, a service, the
//     daemon. Otherwise time does, such as where a program of another language has ended A. In one batch B runs after A, and
//     not at all if A did not end.
//
// Package offsets handles offsets that a rebalance made invalid. Package hold handles patience, owners, and steps of the
// database's clock.
package settle
