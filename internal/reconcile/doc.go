// Package reconcile is the daemon's work: it compares the truth in MySQL with the wake-up index in Redis and mends the
// index. It never changes a task; the only rows it removes are finished ones past their retention, and history as old.
//
// # Mending
//
// All passes mend by the same steps, because each other order loses:
//
//  1. Read what the two sets hold for a task.
//  2. Read the row on the primary. (Row first, index second: a stale row would overwrite a reschedule that was
//     committed and put in between.)
//  3. Where they differ, replace exactly what was seen in step 1 by what the row of step 2 says, newer-looking or not: a
//     version that never committed (a put after a rollback, a lost commit, a restored backup) must not shut the true
//     one out. If either set has moved since step 1, nothing is written.
//  4. Read the row again. If it has moved, start again: its own put or drop may have come before ours. If a set had
//     moved, so that nothing was written, start again too: what came between may be a version that never commits.
//
// A pending row whose moment has come, or comes within the flight time, may rightly be absent from the due set, if it stands in
// its owner's: its hint is under way. Only the overdue pass, a compensation, or a rebuild puts such a row again. The clock goes on during
// a pass, so that a long one doesn't repeat what was published since it began.
//
// That a set doesn't know yet of a change within the last second is mended like everything, but counts as no drift: in a
// burst it is so of some row at any moment.
//
// # The passes, one file each
//
//   - compensate: ids whose index write did not succeed, told by a message; shards whose memory was lost.
//   - lookahead: rows due soon must stand in the index with the right score.
//   - overdue: rows past their time and absent from the due set are put again: at once when the queue's backlog shows
//     that the hint is lost, not while it explains the wait, else at ages that double. Those standing at another time
//     are mended.
//   - changed: rows written lately are compared in both sets, in any state, and once more before they leave the window:
//     finds ghosts in owners' lists.
//   - rebuild: a shard without its generation marker lost its memory: near-due rows first, the marker last.
//   - audit: samples in both directions; everything, once any pass has found drift or a lost hint. What a message told of
//     is neither.
//   - purge: finished rows past retention, and lines of the history that are as old.
//
// A pass but the rebuild rests at least twice as long as it worked, so that no table is so large that comparing it takes a
// core. The audits rest ten times as long; so do overdue and changed for the first seconds of a run, between their pages
// already, as long as nothing is found to mend: a burst needs the servers for itself.
//
// Every pass first re-reads its epoch and stops when a newer daemon leads: two may overlap, which costs work, never
// correctness.
package reconcile
