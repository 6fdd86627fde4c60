// Package elect decides which process leads. It owns the election's znodes and the life of a term. It promises that one
// of the processes that can work leads, and that each term has a higher epoch than the last. It does not promise that
// only one process believes that it leads, and never touches the leader's writes: the servers that take the writes check
// the epoch and fence older leaders.
//
// # States
//
// A candidate is away (no place), queued (a place behind others), leading (first, with a term), or placeless (a term
// without a place). Its steps:
//
//  1. Enter: remove every node with the candidate's own guid, then create an ephemeral sequential node, the last one. If
//     the servers refuse this, or anybody may write nodes that should be ours alone, Lead returns an error; but not while
//     a term goes on, which needs no place.
//  2. Wait: watch only the node ahead. When that node vanishes, list the queue once more.
//  3. First: if a term is placeless and the counter still has its epoch, nobody was elected since: go on with the term.
//     Else take the next epoch, within StallAfter.
//  4. Check: ask the servers (after a sync) whether the own node is still first. If not, leave the epoch unused.
//  5. Begin: end the old term if there is one, wait for its function, start the function under the new epoch.
//  6. Hold the place, and watch the term, until one of the ends below.
//  7. A term reads the counter about every second. If the counter is above its epoch, a placeless term ends, and so does one
//     whose connection is down. If the counter is below, the term raises it to its epoch. An unreadable counter ends nothing.
//
// How holding a place ends:
//
//   - Fenced: the term ends at once. If the servers say that the node is still first, take an epoch above the stored one
//     and go to 4; else give the place up and go to 1.
//   - Place lost (session expired, node deleted, servers wiped): the term goes on placeless, and the candidate goes to 1.
//   - No pass for StallAfter: give the place up; the term goes on placeless; wait and go to 1.
//   - The function returned: give the place up, wait, go to 1.
//   - Stopped: cancel the function, give the place up.
//
// Waits double with each resignation in a row and are jittered.
//
// # Invariants
//
//   - At most one function runs per name and elector; it has returned before the next one is called.
//   - A function starts only under an epoch that was taken while its node was first; afterwards the node was first too.
//   - Losing ZooKeeper, for any time, neither ends a term nor delays its work.
//   - Only a candidate that uses a place holds it: a candidate that can't delete its node gives its session up.
//
// # Races that shaped it
//
// Two leaders overlap. A frozen process wakes after its session has expired and its successor works, and may learn of
// this a second after it could write. So this package does not try to stop a leader in time: the epoch fences its first
// write.
//
// The late epoch:
//
//  1. A comes first and is frozen before it takes an epoch; its session expires.
//  2. B comes first, takes epoch 5 and leads.
//  3. A wakes and takes epoch 6. If A started, it would fence B, which holds the place, and B would take 7.
//  4. Therefore step 4: A asks for its node, does not find it, and never uses 6. If B learns of 6 from the counter, it asks
//     for its own node, finds it first, and takes 7.
//
// Keeping a term after its place was lost (step 3):
//
//  1. A reads the counter at its own epoch, then finds its new node first.
//  2. An epoch that was taken before that read would have been seen. A candidate that takes one later was ahead of A and
//     fails step 4, because its node has vanished or is behind A's.
//
// The counter went back (a restored backup, a promoted replica): every new epoch is below the one stored with the writes.
// The fence names the stored epoch, and the leader that holds the place takes an epoch above it. The daemon's writes store no
// epoch: its fence is the counter, and an overtaken daemon would go on for ever beside its successor, each undoing the other's
// rebuilds:
//
//  1. A leads with epoch 10. The counter falls back to 7, and A loses its place.
//  2. B comes first, takes epoch 8 and leads. A reads 8, which is not above 10.
//  3. Therefore step 7: A raises the counter to 10, which fences B. B is first, so it takes 11, which ends A.
//
// One case is left: the counter falls back by less than a second before B takes exactly A's epoch. Then both lead until one of
// them ends.
//
// A leader that can't work (it has ZooKeeper but has lost all other servers) would never be replaced. So a watchdog gives
// its place up. The watchdog does not end the term: if no other process can lead either, half a leader is better than
// none. It counts looks without progress, not time, so that a process that was frozen does not seem to have stalled.
//
// A create has an unknown outcome: a connection lost at the wrong moment leaves an unknown node, which would block the
// queue. Requests of one client arrive in order, so a list after the failed create finds the node by its guid, and step
// 1 removes it. A create queued in the client may even run under the next session: if the session has changed meanwhile,
// the place is not used, and step 1 runs once more.
//
// Wiped servers forever refuse a client that has seen a later transaction than they have. Servers of an ensemble without
// a quorum also refuse everybody, but only for a while, and such refusals must not cost a session that could be resumed.
// So a client is replaced if it was away for longer than a session lasts and was refused for a third of that time.
package elect
