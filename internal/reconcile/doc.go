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
// The hint of a pending row may be under way if its moment has come or comes soon (sweep.underWayUntil). Such a row may be
// absent from the due set, if its entry is in the owner's set. Only the overdue pass, a compensation, or a rebuild puts
// such a row again. The clock goes on during a pass, so that a long pass doesn't put rows that were published since it
// began.
//
// What the daemon itself has committed it puts as any writer does (compensate.go): the index refuses a version older than its own.
//
// An entry that lacks a change of the last second is mended, but is no drift: in a burst some entry always lacks one.
//
// # Passes
//
// passes.go lists the passes: what each repairs, how often it runs, and how it sleeps. Each is in the file of its name. A run of a
// pass is a sweep (sweep.go): it tells the time, sleeps between pages, and leaves out shards that have failed since it began
// (skipped.go). A pass goes through rows by a walk (walk.go), which keeps its place.
//
// Walks through pending rows begin at the store's floor: in front of it there may be millions of index entries of tasks that ended.
// A row that comes to stand below is found by the store within minutes and makes the floor its own. It is past its time, so the
// overdue pass puts it; if it is misplaced, an audit moves it.
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
//
// # A Redis with an old memory
//
// A Redis that restarts from a snapshot, or a replica that was cut off before it took over, has the markers of before, so that
// nothing is rebuilt. What it lacks may have changed long before the changed pass looks back. Wake-ups are not late, since the
// lookahead compares each row before it is due; but lists come from Redis. So everything is audited
//
//   - if other servers answer within a term (Index.Identity), and
//   - by each term that begins within a day (auditAfter) of a server's start, unless it has rebuilt every shard: the term does not
//     know who answered before, and the daemon that knew may have died, with Redis or before its audits were through.
package reconcile
