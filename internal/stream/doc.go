// Package stream carries the messages between the stages: hints (look at this task) from event to worker through one
// topic per queue, compensations (put these tasks, or rebuild these shards) to the daemon, and dead letters to their
// readers. It runs on internal/broker, and in tests on internal/test/streamtest's brokers in memory.
//
// It promises:
//   - A message for which Publish, Compensate or Bury answered nil is in the log of every in-sync replica.
//   - A message is delivered at least once after its append, in order within its partition, to the group's member that
//     owns the partition.
//   - An owner's messages share a partition. Exceptions are hints of tasks that wait for a worker of their kind: they go on
//     from partition to partition.
//   - A commit can't rewind or skip another generation's work: it carries the number of its own generation, and the broker
//     refuses it once a newer one stands.
//
// It never decides anything about a task: losing, repeating or delaying a message is harmless. An error of Publish,
// Compensate or Bury means "unknown", unless it is Permanent: the message may be in the log.
//
// # A message's way
//
//  1. Encode. A hint by hint.go encodeHint, within limits that decodeHint checks; a compensation by compensation.go
//     encodeCompensation, in several messages if it is large; a dead letter by deadletter.go encodeDeadLetter, cut to
//     fit. hint.go traceHeaders adds the trace of the call.
//  2. Address. names.go makes the names of topics and groups. route.go partitionOf places an owner's hints. A hint that waits
//     for a worker of its kind goes on by strides.
//  3. Send. kafka.go Kafka.Publish, Compensate, Bury by broker.Client.Produce.
//  4. Consume. Kafka.Consume and Compensations by broker.Client.Consume, whose package explains sessions.
//  5. Decode. session.go hintSession.Fetch: a hint that can't be decoded is delivered with its error. compensation.go
//     compensator.run: a compensation that can't be decoded is dropped and counted. The others are delivered until the
//     daemon accepts them, then their offsets are committed.
//  6. Explain. backlog.go Kafka.Backlog: the moment inside the first uncommitted hint of an owner's partition tells whether
//     lag can explain that a task has not run.
package stream
