// Package offsets knows which delivered messages of a partition are settled, and what may be committed of them.
//
// It promises that an offset is committed only when every message before it was settled in the same generation. It never
// commits for a generation that is over, and never an older offset after a newer one.
//
//  1. Deliver counts a message, in the order of delivery, because a log has gaps between its offsets.
//  2. Mark.Settle says that the message needs no more work. The settled prefix grows over it once nothing before it is open.
//  3. Commit sends the end of each prefix that grew. A refused commit is made good by the next one.
//  4. End forbids any further commit: the partitions are somebody else's.
//
// # Races that shaped it
//
//  1. Kafka accepts a commit from before a rebalance. It rewinds the group, or skips what the new owner works on. So a
//     Generation lives and dies with its membership, and marks outlive it harmlessly.
//  2. A message that is read twice settles at a lower offset than the prefix has reached. The prefix never goes back.
package offsets
