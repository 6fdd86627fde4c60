// Package elect decides which process leads. It owns the election's znodes and the life of a term; it promises that
// of the processes that can work one leads, each term under a higher epoch than the last; it never promises that only
// one process believes to lead, and never touches what the leader writes: the epoch, checked where the writes go,
// stops the others there. Local is the in-process twin of ZooKeeper, with the same rules over another queue.
//
// # States
//
// A candidate is away (no place), queued (a place behind others), leading (first, with a term), or adrift (a term
// without a place). Its steps:
//
//  1. Enter: remove every node with the candidate's own guid, then create an ephemeral sequential one, the last. Where
//     the nodes are not to be had, or anybody may write nodes that should be ours alone, Lead ends and says so; but not
//     while a term goes on, which needs no place.
//  2. Wait: watch the node ahead and no other. When it goes, look again.
//  3. First: if a term is adrift and the counter still stands at its epoch, nobody was elected since: go on with it.
//     Else take the next epoch, within StallAfter.
//  4. Check: ask the servers (after a sync) whether the own node still stands first. If not, the epoch is left unused.
//  5. Begin: end the old term if there is one, wait for its function, start the function under the new epoch.
//  6. Hold the place, and watch the term, until one of the ends below.
//  7. Adrift a term ends when it is fenced, or when the counter, read about every second, is above its epoch. An
//     unreadable counter ends nothing. A leader whose connection is down reads the counter too.
//
// How holding ends:
//
//   - Fenced: the term ends at once. If the node still stands first (asked, not remembered), take an epoch above the
//     stored one and go to 4; else give the place up and go to 1.
//   - Place lost (session expired, node deleted, servers wiped): the term goes on adrift, and the candidate goes to 1.
//   - No pass for StallAfter: give the place up; the term goes on adrift; wait and go to 1.
//   - The function returned: give the place up, wait, go to 1.
//   - Stopped: cancel the function, give the place up.
//
// Waits double with each resignation in a row and are jittered.
//
// # Invariants
//
//   - At most one function runs per name and elector; the old one has returned before the next is called.
//   - A function starts only under an epoch taken while its node was first, and seen first again afterwards.
//   - Losing ZooKeeper, for however long, neither ends a term nor delays what it does.
//   - A place is held only by a candidate that uses it: whoever can't delete its node gives its session up.
//
// # Races that shaped it
//
// Two leaders overlap. A frozen process wakes with its session expired and its successor at work, and learns of it a
// second later than it could write. So nothing here tries to stop a leader in time; its epoch does, at its first write.
//
// The late epoch:
//
//  1. A comes first and is frozen before it takes an epoch; its session expires.
//  2. B comes first, takes epoch 5 and leads.
//  3. A wakes and takes epoch 6. Were it to start, it would fence B, which holds the place, and B would answer with 7.
//  4. Therefore step 4: A asks for its node, finds it gone, and never uses 6. Should B learn of 6 from the counter, it
//     asks for its own node, finds it first, and takes 7.
//
// Keeping a term after its place was lost (step 3):
//
//  1. A reads the counter at its own epoch, then finds its new node first.
//  2. Whoever took an epoch before that read would have been seen. Whoever takes one later was ahead of A and fails
//     step 4, for its node is gone, or stands behind A.
//
// The counter went back (a restored backup, a replica promoted): every new epoch is below the one stored with the
// writes. The fence names the stored epoch, and the leader that holds the place takes one above it.
//
// The leader that can't work (it keeps ZooKeeper but has lost everything else) would never be replaced: hence the
// watchdog. Its term is not ended by it, because where nobody else can lead either, half a leader is better than none.
// The watchdog counts looks without progress, not time, so a process that was frozen is not taken for one that stalled.
//
// The create with an unknown outcome: a connection lost at the wrong moment leaves a node that nobody knows of and
// that would hold the queue up. Requests of one client arrive in order, so listing after the failed create finds it
// by the guid, and step 1 removes it. A create queued in the client may even run under the next session; a place
// whose session changed meanwhile is not trusted, and step 1 runs again.
//
// Wiped servers refuse a client that has seen a later transaction than they have, for ever. A client that was away for
// longer than a session lasts, and whose sessions are refused for a third of that time, is replaced by a fresh one: nodes
// of an ensemble that have no quorum yet refuse everybody too, and must not cost a session that could still be resumed.
package elect
