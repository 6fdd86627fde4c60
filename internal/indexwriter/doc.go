// Package indexwriter puts tasks into the index after the transactions that made or changed them have committed.
//
// It promises that each task that it is handed is put, or its id compensated, or counted as dropped: the daemon's sweeps find
// what was dropped. It never decides anything by the index, and bounds how long a caller waits for it.
//
// # Steps
//
//  1. Callers hand tasks over (writer.go). [Writer.Enqueue] is for callers that need no answer, [Writer.PutAndWait] for those
//     that wait, [Writer.PutDirectly] for a batch of changes, which need not be gathered once more.
//  2. The queue (queue.go) has room for maxQueuedTasks. Callers that schedule faster than the index accepts wait for room.
//  3. One flush at a time (flush.go) puts what has gathered: in calls of at most maxTasksPerCall tasks, two side by side. Small
//     flushes that nobody waits for begin minPutInterval apart. A failed call is made once more.
//  4. Repeated failures open the breaker of the index (breaker.go). Where some shards fail and others do not, each failing
//     shard has a breaker of its own (shardbreaker.go), so that no other shard's tasks wait for it.
//  5. What was not put is compensated (compensate.go): ids go to the compensation topic in the background, and the daemon
//     reads their rows. The ids that do not fit into the bounded queue are dropped and counted.
package indexwriter
