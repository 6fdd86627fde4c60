// Package dispatch turns due index entries into hints: the event process's only work. It runs no business logic,
// decides nothing about a task, and holds nothing that a crash could lose.
//
// # The pass
//
// One goroutine per shard, all side by side, each repeating one pass:
//
//  1. In one round trip, acknowledge the entries that the previous pass published (remove each from the due set if its
//     score is still the claimed one) and claim the entries that are due within the lead time. A claim removes nothing.
//  2. Publish the claimed entries as hints and wait, within bounds, until Kafka has taken the hints.
//  3. Remember the published entries. They are acknowledged with the next claim, which follows at once after a full claim,
//     and a beat later at most otherwise.
//  4. When nothing is due: sleep until the beat after which the first entry comes within the lead time, until a wake-up
//     announces an earlier entry, or for a second (up to four with many shards), whichever is first.
//
// # The races that shaped it
//
//   - A crash between 2 and 1 repeats a hint. Removing an entry before publishing its hint would lose the hint.
//   - A task is moved between claim and acknowledgement. Its entry has another score then, so the acknowledgement does not
//     remove it.
//   - A frozen leader wakes up. Its epoch is older than the one that its successor left in each shard: its first claim or
//     acknowledgement answers FENCED and its term ends. It may have repeated hints, which is harmless: the row decides.
//   - Hints go out a lead time early. Nothing fires early: the worker holds hints, and checks the row under lock on the
//     database's clock.
//   - Kafka may refuse the hints of one queue or partition, or not answer them, and take all others. So each queue has
//     calls of its own; in a queue in trouble, each partition has. A pass waits for the answers for 500 ms at most (10 ms in
//     trouble), and processes later answers when they come. A hint in flight is not sent twice. A refused entry has a retry
//     time of its own, while the shard goes on.
//   - An entry that Kafka keeps refusing would stay at the head of its shard and starve all others. After three refusals
//     while Kafka took other hints, the entry is removed from the due set and counted as passed over. It is passed over at
//     once if it can't be read, if the refusal is permanent, or if half a claim of refused entries waits already. Claims
//     reach past the entries that wait. The row is still pending, so the daemon puts it again, at growing intervals. If
//     nothing else shows whether Kafka takes hints, a message on the compensation topic does.
//   - While Kafka takes nothing at all, no refusal is counted: the shard waits for its answers and backs off as a whole.
//   - A leader that lost Kafka or Redis must be replaced, but its idle passes and marker reads succeed. So only a completed
//     claim is progress of the term. While any shard has claimed entries that are unpublished, only hints that Kafka takes
//     are progress.
package dispatch
