// Package index owns every Redis key and every Lua script of duetime: per shard a sorted set of what is due, a sorted
// set per owner, the epoch that fences old dispatchers, the generation marker, and the wake-up channel.
//
// The index can be rebuilt from the tasks' rows and is never the truth: nothing is decided here, and FLUSHALL at any
// moment loses no task. The package reads no row, keeps no clock (callers pass every time), and never removes an entry
// by itself.
//
// # Keys
//
// All keys of a shard share the hash tag {shard}, so that one script can reach them in Redis Cluster:
//
//	<ns>:{s}:due            sorted set: member → score, all pending tasks not yet published
//	<ns>:{s}:owner:<owner>  sorted set: member → score, the owner's pending tasks
//	<ns>:{s}:epoch          the highest epoch that claimed or acknowledged here
//	<ns>:{s}:gen            "complete:…" once a rebuild ended; absent after a loss of memory; "building:…" meanwhile
//	<ns>:{s}:claimed        the last score that a claim returned
//	<ns>:{s}:wake           channel: the milliseconds of an entry that became the first one not yet claimed
//
// # Invariants
//
//   - A writer's put writes both sets or neither, and never over a newer version: a late put can't undo a reschedule. It
//     compares its version with the newer of the two scores, since an ack removes a member from due but not from the
//     owner's set.
//   - An entry can have a version that never committed (a put before a rollback, a lost failover). This version would keep
//     the true one out for good. So a repair does not compare versions: it replaces exactly the scores that its caller read
//     before the row.
//   - A claim removes nothing, and an ack removes only members that still have the claimed score. A crash between them
//     repeats a hint and loses none. A task that was moved between them keeps its entry.
//   - Every script can be repeated, because a script that timed out may have run.
//
// An Index is safe for concurrent use.
package index
