// Package broker speaks to Kafka: it produces, ensures topics, keeps memberships in consumer groups, reads partitions,
// and reports what a group has not committed. It knows keys, values and offsets. internal/stream knows what a message
// means.
//
// It promises:
//   - A message for which Produce answered nil is in the log of every in-sync replica.
//   - Each record is delivered at least once, in order within its partition, to the group's member that owns the partition.
//   - A commit carries the number of its generation, and the broker refuses it once a newer generation stands.
//   - Every call ends: with its ctx or its own timeout.
//
// It never decides that a message was lost: an error of Produce means "unknown" unless it is permanent. Refusal
// (errors.go) tells errors that a retry can't fix from those that it may fix.
//
// # Producing
//
//  1. produce.go Client.Produce waits while too many messages are unanswered, and hands its messages to the producer. It
//     ensures an unknown topic, and sends that topic's messages a second time.
//  2. gather.go gatherer.add gathers the messages of one millisecond. producer.go producer.pack sorts them into batches,
//     one or more for each partition; sizelimits.go refuses sizes that the topic has refused within the last ten seconds.
//  3. request.go producer.plan makes one request of all batches for one broker, producer.send sends it.
//  4. producer.go producer.conclude ends each batch separately: taken, refused permanently, halved because it is too large
//     (batch.go partitionBatch.halves), or retried after a growing delay. A caller is answered once all batches with its
//     messages have ended; no caller waits for another's retries.
//
// # Topics
//
// ensure.go Client.Ensure creates what is missing. A call that meets an unknown topic ensures all topics, at most once a
// second: the broker's data may have been wiped.
//
// # A session
//
// A session is one generation of a consumer group as one member sees it.
//
//  1. member.go Client.Consume ensures the topic and joins. The group's leader splits the partitions, counts them
//     (balancer.go countingBalancer), and checks every two seconds whether their number has changed.
//  2. member.serve starts the session, and fn with it. session.go Session.run starts a reader for each partition.
//  3. reader.go reader.run fetches from the group's committed offset on (from the log's start if there is none), and
//     puts records into the session's inbox (inbox.go); fetcher.go fetcher makes one request of all readers for one broker,
//     and each reader decodes its part of the answer, batch by batch (answer.go). An answer and the inbox are bounded in bytes.
//     A reader without a good answer for five seconds makes the fetcher reconnect.
//  4. fn calls Session.Fetch and Session.Commit. Commit takes the next offset to read, per partition.
//  5. A member comes or goes, or the coordinator can't be reached: the generation ends and the member joins again.
//     Meanwhile fn goes on with the partitions that it had: its commits are still sent, under the old generation's number,
//     and count if the group has not moved on.
//  6. When the next generation is there, member.sessionEnds closes Lost and ends fn's ctx; fn returns, and is called with
//     the next session. If it has not returned within three seconds, member.leaveUntilReturned leaves the group until it
//     has, so that others get its partitions. What was not committed is delivered again.
//  7. When Consume's own ctx ends, fn's ctx ends but the membership stays alive until fn returned, so that a drain can
//     commit. Then member.leave leaves, and the partitions move at once.
//
// # What is not committed
//
// uncommitted.go Client.Uncommitted compares the group's offsets with the log's ends; Client.RecordsAt reads the first
// record of each partition that has not been committed.
package broker
