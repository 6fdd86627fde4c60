// Package ledger commits changes of tasks, and does what follows a commit: index entries, lines of the history, counters.
//
// A transaction is a list ([Tx]): the changes that it wrote, the events beside them, and its failures. Whatever must follow
// is read from the list after the commit, so a rollback to a savepoint only has to cut the list.
//
// # Steps
//
//  1. [Ledger.Run] begins a transaction. Its caller locks rows and computes transitions of pkg/task.
//  2. [Tx.Write] writes the transitions, and makes the next tasks of recurrences whose tasks have ended. [Tx.Inserted] adds
//     new rows to the list, [Tx.Note] an event.
//  3. [Transact] counts members of groups that have ended ([Tx.CountGroups]), has InChange agree, commits, reads the answer, and has OnChange called ([Hooks]). After a deadlock Run runs
//     everything again. A worker's batch and a page of the daemon call Transact by themselves: each has its own rule for what
//     follows a failure.
//  4. The transaction has one of three ends. Committed: [Ledger.Follow] does everything. Certainly not committed: nothing
//     follows. Unknown: the daemon compares the rows with the index ([Ledger.Unknown]), and nothing else is done.
//
// A single row that no other transaction has locked needs no transaction: [Ledger.Insert] and [Ledger.WriteOne] are one
// statement each. A transaction that its caller commits ends with [Ledger.FollowCommitted].
package ledger
