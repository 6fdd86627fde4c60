// Package reconcile is the daemon's work: it compares the truth in MySQL with the wake-up index in Redis and mends the
// index. On its own account it never changes a task: of a row it writes only the shard in which the row is indexed. It
// inserts tasks only where a recurrence has lost its next one. Only where a service or an operator has made an operation, it
// changes the tasks of that. The only rows it removes are finished ones past their retention, and history as old.
//
// # Mending
//
// All passes mend by the same steps; any other order loses changes:
//
//  1. Read what the two sets hold for a task.
//  2. Read the row on the primary. If the row were read before the sets, a stale row would overwrite a reschedule that was
//     committed and put in between.
//  3. If they differ, replace exactly what was read in step 1 by what the row of step 2 says, even if the entry looks
//     newer: a version that never committed (a put after a rollback, a lost commit, a restored backup) must not keep the
//     true version out. If either set has changed since step 1, nothing is written.
//  4. Read the row once more. If the row has changed, start over: its own put or drop may have come before ours. If a set
//     had changed, so that nothing was written, start over too: the new entry may be of a version that never commits.
//
// The hint of a pending row may be under way if its moment has come or comes soon (underWayUntil). Such a row may be
// absent from the due set, if its entry is in the owner's set. Only the overdue pass, a compensation, or a rebuild puts
// such a row again. The clock goes on during a pass, so that a long pass doesn't put rows that were published since it
// began.
//
// An entry that lacks a change of the last second is mended, but is no drift: in a burst some entry always lacks one.
//
// # The passes, one file each
//
//   - compensate: puts rows whose index write failed, named by a message; wakes the rebuild.
//   - lookahead: compares rows that are due soon.
//   - overdue: puts rows again that are past their time and absent from the due set: at once if the queue's backlog shows
//     that the hint is lost, not while the backlog explains the wait, else at ages that double. It mends entries with
//     another time.
//   - changed: compares recently changed rows with both sets, in any state, and once more before they leave the window. It
//     finds entries of finished tasks in owners' sets.
//   - rebuild: fills shards without a generation marker, whose memory was lost: near-due rows first, the marker last.
//   - rehome: moves rows to their owners' places while the number of shards changes.
//   - horizon: changes in steps how far ahead tasks stand in the index.
//   - operations: carries out changes of many tasks that services and operators have asked for.
//   - recurrences: makes the next task of each recurrence that was left behind.
//   - audit: compares samples of rows and of entries; compares everything once any pass has found drift or a lost hint, or
//     has another reason. Compensated rows are neither.
//   - blocked: cancels the tasks, and stops the recurrences, that a transaction has left of an owner blocked within the last hour.
//   - purge: deletes finished rows past their retention, and history, recurrences and operations of the same age.
//
// After a run, most passes sleep at least twice as long as they worked, so that comparing a large table never takes a whole
// core. The audits sleep ten times as long. So do overdue and changed, for the first seconds of a run and between its pages,
// while they find nothing to mend: a burst needs the servers for itself. The rebuild doesn't sleep. While tasks run, rehome
// and operations sleep three times as long as each small page took; else they don't sleep, but for an operation's rate.
//
// Every pass first reads the epoch and stops if a newer daemon leads. Two daemons may overlap, which costs work, never
// correctness.
//
// # Losing a server
//
// A daemon that has lost MySQL or Redis must make way for one that has not. So only what both have answered is progress of
// its term: see progress.go.
//
// While Redis is away for all daemons, they take turns, every few seconds. A stalled term goes on until another one begins,
// so what needs MySQL alone goes on: operations, recurrences, the purge. A move of rows, or a change of the horizon, begins
// its lap anew in each term; it could not go on without Redis. The changed pass of a term that begins then does not know how
// far to look back. So everything is audited once Redis is back.
package reconcile
