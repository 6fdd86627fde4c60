// Package offsets knows which delivered messages of a partition are settled, and what may be committed of them.
//
// It promises that an offset is committed only when every message before it was settled in the same generation. It never
// commits for a generation that is over, and never an older offset after a newer one.
//
//  1. Deliver counts a message, in the order of delivery, because a log has gaps between its offsets.
//  2. Mark.Settle says that the message needs no more work. The settled prefix grows over the message once all messages
//     before it are settled.
//  3. Commit sends the end of each prefix that grew. The next commit repeats a refused one.
//  4. End forbids any further commit: the partitions belong to another member.
//
// # Races that shaped it
//
//  1. Kafka accepts a commit from before a rebalance. Such a commit rewinds the group, or skips messages that the new
//     member works on. So a Generation ends with its membership, and later settling of its marks does nothing.
//  2. A message that is read twice is settled at a lower offset than the prefix has reached. The prefix never goes back.
package offsets
