// Package stream carries the messages between the stages: hints (look at this task) from event to worker through one topic
// per queue, compensations (look at this) to the daemon, dead letters to whoever reads them. Two adapters with the same
// methods do it: Kafka, on internal/broker, and Local, its in-process twin.
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
// # A message's way
//
//  1. Encode. A hint by hint.go encodeHint, in limits that decodeHint checks; a compensation by compensation.go
//     encodeCompensation, in several messages where it names many; a dead letter by deadletter.go encodeDeadLetter, cut to fit.
//     trace.go traceHeaders adds the trace of the call.
//  2. Address. names.go spells topics and groups. route.go partitionOf places an owner's hints, and has a hint that waits for
//     a worker of its kind go on by strides.
//  3. Send. kafka.go Kafka.Publish, Compensate, Bury by broker.Client.Produce; local.go Local.append.
//  4. Consume. Kafka.Consume and Compensations by broker.Client.Consume, whose package says what a session is; for Local
//     localgroup.go shares the partitions among members, and localsession.go is a generation.
//  5. Decode. session.go hintSession.Fetch: a hint that can't be decoded is delivered as such. compensation.go
//     compensator.run: a compensation that can't be decoded is dropped and counted; the others come until they are
//     accepted, then their offsets are committed.
//  6. Explain. backlog.go Kafka.Backlog and localtopic.go localTopic.backlog: the moment inside the first uncommitted hint of
//     an owner's partition tells whether lag can explain that a task has not run.
package stream
