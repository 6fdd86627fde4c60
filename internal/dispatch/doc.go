// Package dispatch turns due index entries into hints: the event process's only work. It runs no business logic,
// decides nothing about a task, and holds nothing that a crash could lose.
//
// # The pass
//
// One goroutine per shard, all side by side, each repeating one pass:
//
//  1. In one round trip, acknowledge what the previous pass published (remove it from the due set only where its score
//     is still the one claimed) and claim what is due within the lead. A claim removes nothing.
//  2. Publish the claimed entries as hints and wait, within bounds, until Kafka has acknowledged them.
//  3. Remember the acknowledged ones; they travel with the next claim, which follows at once when this one was full, and
//     a tick later at most.
//  4. When nothing is due: sleep until the tick after which the first entry comes within the lead, until a wake-up says
//     that an earlier one was put, or for a second (up to four where there are many shards), whichever is first.
//
// # The races that shaped it
//
//   - A crash between 2 and 1 repeats a hint; removing before publishing would lose one.
//   - A task moved between claim and acknowledgement has another score, so the acknowledgement leaves it alone.
//   - A frozen leader that wakes up has an older epoch than the one its successor left in each shard: the first claim
//     or acknowledgement answers FENCED and the term ends. What it published meanwhile are hints; the row decides.
//   - Hints go out a lead ahead of their time. Nothing fires early: the worker holds them, and the row is checked under
//     lock on the database's clock.
//   - Kafka may refuse the hints of one queue or partition, or not answer them, and take all others. Each queue's hints
//     are handed over by a call of their own, each partition's where the queue is in trouble. A pass waits for the answers
//     500 ms at most (10 ms in trouble) and takes in later ones when they come; what is under way is not sent again. A
//     refused entry is tried again at a time of its own, while the shard goes on.
//   - An entry that Kafka keeps refusing would sit at the head of its shard and starve the rest. After three refusals
//     while Kafka took others it is taken out of the due set and counted; at once if it can't be read, if the refusal is
//     for good, or if half a claim of such entries waits already. Claims reach behind those that wait. The row is still
//     pending, so the daemon puts it again, spaced. When nothing else shows that Kafka is well, a message on the
//     compensation topic does.
//   - When Kafka takes nothing at all, no entry is counted: the shard waits for its answers and backs off as a whole.
//   - A leader that lost Kafka or Redis must be replaced, but idle passes and looks at markers go well. So only a
//     completed claim is the term's progress, and while any shard owes hints that it claimed, only what Kafka takes.
package dispatch
