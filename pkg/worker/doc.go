// Package worker runs tasks: it maps kinds to handlers, and takes each hint that Kafka delivers to its end in a
// transaction of MySQL that holds the task's row, the handler's effect, and the word "done".
//
// It owns the protocol "settle", below. It promises that an effect through a Tx takes place exactly once and never
// before its time, whatever hints were lost, repeated or late; that a task which fails is charged alone; and that one
// which kills its process is charged too. It never decides by a hint, never puts a task back into the index under the
// version that its row has, and never charges a task for what MySQL, a neighbour or a stop of the worker did.
//
// # The protocol "settle"
//
// States of a hint: held (until its moment, on the database's clock) → taken (by one runner) → settled (its offset may
// be committed), or held again.
//
//  1. Intake. A session delivers hints by partition. Each is noted in the prefix of its partition in this generation and
//     held; hints of the same task and version share one place, and settle together. When too much is uncommitted
//     fetching pauses.
//  2. Take. A paused queue hands nothing out. When a hint's moment has come a runner takes it with all else that is
//     due, up to a batch, without lingering; hints of one owner go to one runner at a time.
//  3. Lock. One transaction locks the rows that are free, by primary key, in id order, in any state, and asks for the
//     database's time in the same statement.
//  4. Decide, by each row alone. Missing: settled (the daemon's audit drops the entry; the hint lacks what names it).
//     Locked by somebody: held 100 ms. Ended: settled, and dropped from the index. Pending but later: held for the rest
//     of its time if the row has the hint's version, else settled and the row put into the index. Due: run, or
//     cancelled where its first run would begin beyond its kind's window for catching up.
//  5. Run. Handlers in id order; after Config.BatchTime of them the rest is given back. Whatever a handler moved or
//     cancelled leaves the run.
//  6. Mark done what ran, in one statement which must change exactly that many rows; where something did not simply fire,
//     tell so in the history, in one statement; commit.
//  7. Settle: offsets as a contiguous prefix per partition, the index, dead letters, metrics. Only a committed
//     transaction's findings count.
//
// When a handler fails, its transaction is rolled back, and the others are run again with a savepoint for each call; the
// failing task is charged an attempt in that transaction without being run again. A batch handler's call is halved,
// between savepoints, until the failing task is alone. Tasks that failed before have a lane and runners of their own: however
// many fail, who is well does not wait for them.
//
// # Invariants
//
//   - A handler runs only while its transaction holds the row lock, and the row said pending and due under that lock.
//   - At the commit every row whose handler ran is marked done, or was moved by the handler itself.
//   - An offset is committed only when every message before it was settled in the same generation.
//   - An attempt is charged only for an answer of the handler, for its timeout, for connections that it loses alone while
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
//  4. An outside effect precedes the commit. It runs alone, its row locked; cancel waits for the lock and then answers
//     "running", never a yes that comes too late.
//  5. A task that kills its process is never charged, and each restart runs it again. So what was due before a partition
//     was assigned is suspect: its attempt is charged in a committed transaction before its handler runs. The first
//     time it may share a batch all the same, which makes a rebalance cost one statement per batch. Those that have been
//     charged before run one at a time, so that of the innocent ones none is charged twice by one culprit. One whose
//     attempts are used up is dead without being run. What was charged and not run to an end is given back if the worker
//     stops. A worker that leaves a partition with nothing running says so in a row that names it as the holder, and the
//     next one has no suspects there; a crash says nothing. A task is not dead of charges alone while it may be that no
//     charge was ever followed by a run: its last attempt is then begun once more, which its row says, with by whom.
//  6. A commit of offsets from before a rebalance is accepted by Kafka and rewinds the group or skips records. Prefixes
//     live and die with their generation.
//  7. The acknowledgement that follows a claim removes the entry with the score that was claimed. An early hint that was
//     put back under its version is removed by it and lost until the sweep; with clocks apart, claim and put-back would
//     chase each other. An early hint is held.
//  8. One hint that can't be settled (a frozen transaction holds its row) keeps all behind it from being committed. After
//     Config.Patience it is let go, and the daemon's sweep puts it again. Not while MySQL is away: then everything
//     pauses, and nobody's patience runs.
//  9. A row that somebody else holds would make the batch wait with 100 locks in hand: such rows are skipped.
//  10. A commit whose answer was lost may have taken effect. The hints are looked at again: the rows tell.
//  11. A handler that ignores its context keeps its connection. Every statement through its Tx ends with its context;
//     if it does not return it is left behind, its transaction is lost, and after three of them Run gives up.
//  12. A handler whose statement ends its connection looks like MySQL going away: the gate would close for all queues, and
//     its batch would come again, uncharged, without end. A probe that writes on another connection decides. If it
//     succeeds, each hint whose handler was called counts the loss: after the second they run alone, after the fourth the
//     task is charged. An outside handler is charged at the first: it has acted already.
//  13. A handler's context ends under a result that it left open, or under a statement that it passes over: the driver closes
//     the connection, and the neighbour whose statement notices would be charged. Results are closed with their handler; and
//     where several handlers were called before the cut, it counts as in 12.
//  14. A handler says COMMIT: all before it lasts without the word done, and what follows commits one by one. Such statements
//     are refused; before one that may hide a COMMIT what has run is marked done, and a savepoint tells whether it did.
package worker
