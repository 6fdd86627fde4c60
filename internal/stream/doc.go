// Package stream carries the words between the stages: hints (look at this task) from event to worker through one topic
// per queue, compensations (look at this) to the daemon, dead letters to whoever reads them. Two adapters with the same
// methods do it: Kafka, and Local, its in-process twin.
//
// It promises that what Publish, Compensate or Bury answered nil for is in the log of every in-sync replica; that a
// message is delivered at least once after its append, in order within its partition, to the group's member that owns
// the partition; that an owner's messages share a partition, but for those of tasks which wait for a worker that knows their
// kind and go on from partition to partition; and that a commit can't rewind or skip another
// generation's work: it carries the number of its own generation, and the broker refuses it once a newer one stands.
//
// It never decides anything about a task: losing, repeating or delaying a message is harmless. An error of Publish,
// Compensate or Bury means "unknown", unless it is Permanent: the message may be in the log all the same.
//
// # A session
//
// A session is one generation of the consumer group as one member sees it.
//
//  1. The member joins; the group's leader splits the partitions; Consume calls fn with the session. One goroutine per
//     partition reads ahead from the group's committed offset (from the log's start where there is none); they share
//     requests, one to each broker.
//  2. fn fetches and commits. Commit takes the next offset to read, per partition.
//  3. A member comes or goes, or the coordinator can't be reached: the generation is over and the member joins again. Until
//     it has, fn goes on with the partitions that it had: its commits are still sent, under the old generation's number,
//     and count if the group has not moved on.
//  4. When the next generation is there, Lost is closed and fn's ctx ends; fn returns, and is called with the next session.
//     If it has not returned within three seconds, the member leaves the group until it has, so that others get its
//     partitions. What was not committed is delivered again.
//  5. When Consume's own ctx ends, fn's ctx ends but the membership stays alive until fn returned, so that a drain can
//     commit. Then the member leaves, and its partitions move at once.
package stream
