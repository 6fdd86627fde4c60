// Package settle takes a batch of hints to their ends in transactions of MySQL: each holds the tasks' rows, the handlers'
// effects, and the word "done".
//
// It owns the protocol "settle", below. It promises that an effect through a Call takes place exactly once and never before
// its time, whatever hints were lost, repeated or late; that a task which fails is charged by itself; and that one which
// kills its process is charged too. It never decides by a hint, never puts a task back into the index under the version that
// its row has, and never charges a task for what MySQL, a neighbour or a stop of the worker did.
//
// Where what happens: decide.go finds the verdict, without a server · apply.go carries verdicts out · charge.go changes
// attempts · transaction.go locks, marks done and commits · run.go and invoke.go call handlers · blame.go and loss.go find out
// whose fault a failure is · batch.go says what follows a failed transaction.
//
// # The protocol "settle"
//
// A member of a transaction is decided (its verdict is known), waiting (due, its handler has not run), ran, or marked (its row
// says done).
//
//  1. Lock. One transaction locks the rows that are free, by primary key, in id order, in any state, and asks for the
//     database's time in the same statement.
//  2. Decide, by each row alone. Missing: settled (the daemon's audit drops the entry; the hint lacks what names it).
//     Locked by somebody: held 100 ms. Ended: settled, and dropped from the index. Pending but later: held for the
//     remaining time if the row has the hint's version, else settled and the row put into the index. Due: run, or
//     cancelled where its first run would begin beyond its kind's window for catching up.
//  3. Charge suspects, in a transaction of its own, before anything of them runs.
//  4. Run. Handlers in id order; after Config.BatchTime of them the others are given back. Whatever a handler moved or
//     cancelled leaves the run.
//  5. Mark done what ran, in one statement which must change exactly that many rows. Where something did not simply fire,
//     record it in the history, in one statement. Commit.
//  6. Apply. Hints are settled or held again; the index, dead letters and metrics follow. Only a committed transaction's
//     findings count.
//
// When a handler fails, its transaction is rolled back, and the others are run again with a savepoint for each call; the
// failing task is charged an attempt in that transaction without being run again. A batch handler's call is halved,
// between savepoints, until the failing task is by itself. Tasks that failed before have a lane and runners of their own, so
// that tasks which succeed never wait for them.
//
// # Invariants
//
//  1. A handler runs only while its transaction holds the row lock, and the row said pending and due under that lock.
//  2. At the commit every row whose handler ran is marked done, or was moved by the handler itself.
//  3. An attempt is charged only for an answer of the handler, for its timeout, for connections that it loses by itself while
//     MySQL answers others, or to a suspect beforehand.
//
// # Races that shaped it
//
//  1. A deadlock that a handler swallows has rolled back the effects of all before it, and what follows would commit one
//     by one. Whether an error is the handler's fault is therefore asked of the transaction, not of the error: the
//     store's connections refuse every statement once a transaction was lost, and the whole batch runs again, uncharged.
//  2. A handler cancels or moves a batch-mate that has not run: it answered yes, so the mate leaves the run. One that has
//     run must answer "already done": before a handler's first look at tasks, what has run is marked done in the row.
//     A handler that moves its own task leaves it pending.
//  3. UPDATE … WHERE id IN (p, p) counts once: a batch call has one task of each owner and subject.
//  4. An outside effect precedes the commit. It runs by itself, its row locked; cancel waits for the lock and then answers
//     "running", never a yes that comes too late.
//  5. A task that kills its process is never charged, and each restart runs it again. So what was due before a partition
//     was assigned is suspect: its attempt is charged in a committed transaction before its handler runs. The first
//     time it may share a batch all the same, which makes a rebalance cost one statement per batch. Those that have been
//     charged before run one at a time, so that of the innocent ones none is charged twice by one culprit. One whose
//     attempts are used up is dead without being run. What was charged and not run to an end is refunded if the worker
//     stops. A worker that leaves a partition with nothing running says so in a row that names it as the holder, and the
//     next one has no suspects there; a crash says nothing. A task is not dead of charges alone while it may be that no
//     charge was ever followed by a run: its last attempt is then begun once more, which its row says, with by whom.
//  6. The acknowledgement that follows a claim removes the entry with the score that was claimed. An early hint that was
//     put back under its version is removed by it and lost until the sweep; with clocks apart, claim and put-back would
//     chase each other. An early hint is held.
//  7. A row that somebody else holds would make the batch wait with 100 locks in hand: such rows are skipped.
//  8. A commit whose answer was lost may have taken effect. The hints are looked at again: the rows tell.
//  9. A handler that ignores its context keeps its connection. Every statement through its Call ends with its context;
//     if it does not return it is left behind, its transaction is lost, and after three of them the worker gives up.
//  10. A handler whose statement ends its connection looks like MySQL going away: the gate would close for all queues, and
//     its batch would come again, uncharged, without end. A probe that writes on another connection decides. If it
//     succeeds, each hint whose handler was called counts the loss: after the second they run by themselves, after the
//     fourth the task is charged. An outside handler is charged at the first: it has acted already.
//  11. A handler's context ends under a result that it left open, or under a statement that it passes over: the driver closes
//     the connection, and the neighbour whose statement notices would be charged. Results are closed with their handler; and
//     where several handlers were called before the cut, it counts as in 10.
//  12. A handler says COMMIT: all before it lasts without the word done, and what follows commits one by one. Such statements
//     are refused; before one that may hide a COMMIT what has run is marked done, and a savepoint tells whether it did.
//  13. While MySQL is away nothing may be charged or expire: the gate is closed, everything pauses, and patience begins anew
//     when it opens.
//
// Offsets that a rebalance made invalid are the business of package offsets; patience, owners and a clock that is set are
// that of package hold.
package settle
