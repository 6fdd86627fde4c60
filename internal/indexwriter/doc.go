// Package indexwriter puts tasks into the index after the transactions that made or changed them have committed.
//
// It promises that each task handed to it is put, or compensated, or counted as dropped: the daemon's sweeps find dropped
// tasks. It never decides anything by the index, and bounds how long a caller waits for the index.
//
// # Steps
//
//  1. Callers hand tasks over (writer.go). [Writer.Enqueue] is for callers that need no answer, [Writer.PutAndWait] for
//     callers that wait, [Writer.PutDirectly] for a batch of changes, which is not gathered a second time, [Writer.Offer] for a
//     worker, which never waits.
//  2. The queue (queue.go) has room for maxQueuedTasks. Callers that schedule faster than the index accepts wait for room.
//  3. One flush at a time (flush.go) puts the gathered tasks, in calls of at most maxTasksPerCall tasks, two side by side.
//     Small flushes that nobody waits for begin minPutInterval apart. A failed call is retried once.
//  4. Repeated failures open the breaker of the index (breaker.go). Where some shards fail and others do not, each failing
//     shard has a breaker of its own (shardbreaker.go), so that no other shard's tasks wait for it.
//  5. Tasks that were not put are compensated (compensate.go): their ids go to the compensation topic in the background,
//     and the daemon reads their rows. Ids that do not fit into the bounded queue are dropped and counted.
package indexwriter
