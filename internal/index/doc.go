// Package index owns every Redis key and every Lua script of duetime: per shard a sorted set of what is due, a sorted
// set per owner, the epoch that fences old dispatchers, the generation marker, and the wake-up channel.
//
// It is a rebuildable index of the tasks' rows, never the truth: nothing is decided here, and FLUSHALL at any moment
// loses no task. It reads no row, keeps no clock (every moment is passed in), and never removes what it was not told
// to remove.
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
//   - A writer's put writes both sets or neither, and never over a newer version: a late put can't undo a reschedule.
//     The newer of the two standing scores is what it is held against, since due loses a member at ack while the
//     owner's set keeps it.
//   - A version that never committed can stand here (a put before a rollback, a lost failover). The guard would let it
//     shut the true version out for ever; so a repair does not ask which is newer, it replaces exactly what its caller
//     saw before it read the row.
//   - A claim removes nothing, and an ack removes only what still stands at the claimed score. A crash between them
//     repeats a hint and loses none; a task moved between them stays.
//   - Every script is safe to repeat, because one that timed out may have run.
//
// An Index is safe for concurrent use.
package index
