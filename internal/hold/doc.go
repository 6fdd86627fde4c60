// Package hold keeps hints in time order until their moment, and hands them to runners.
//
// It promises that a hint is handed out no earlier than TakeAhead before its moment, in time order within its lane, and
// to one runner at a time. Hints of one owner are never with two runners at once: the runners would lock the same
// business rows in different orders. (A hint's owner is its route: tasks with an order key of their own share one.) Messages about the same version of a task share one hint, and are settled together.
// The hold decides nothing about a task.
//
// # Phases of a hint
//
//	Add ──> waiting ──Take──> in hand ──Release──> settled: its messages' offsets may be committed
//	           ^                 │  │                 ^
//	           └─────Release─────┘  └─Revoke─> revoked ──Release──> forgotten, if no message was added meanwhile
//
// A waiting hint also leaves by Expire (settled without a look, because its patience is over) and by Revoke (forgotten).
//
// # Invariants
//
//   - A waiting hint is in exactly one timeline: its lane's, or its owner's while the owner is in owners.
//   - The fields of a hint belong to the hold while the hint waits, and to its runner while the hint is in hand. Phase,
//     messages and revoked partitions always belong to the hold.
//   - However many hints of an owner are due, a take of them delays the due hints of other owners once.
//   - A hint of a queue with a rate is handed out with a slot, but for probes. If a transaction settles hints without any call, the
//     next take probes: its hints have no slots, and none may run. So hints of a crowd that was cancelled are settled in
//     batches; with slots, each would take one slot's time.
//   - In a queue with a rate for each owner, a hint is handed out with a slot of its owner: to run, or to be put off to it if it is far. One
//     with a near slot waits for it, before those of its lane that have none. One that waits behind a task of its order key is taken without a
//     slot, to be looked at alone.
//   - An owner with waiting hints of a lane and without a runner has one hint in that lane's timeline.
//
// # Races that shaped it
//
//  1. A hint that cannot be settled keeps the offsets of all later messages from being committed. So patience ends: Expire
//     settles the hint, and the daemon's sweep puts its task again. A hint that only waits for a free runner is not stuck.
//  2. The failure of a hint is not charged yet, because the server still runs the statement that its handler left behind.
//     If the hint expired, the handler would be called again and never charged. So the hint's patience is longer
//     (unchargedFactor).
//  3. The database's clock is stepped. Backward: hints would wait longer than patience. Forward: hints would seem to have
//     waited already. AdjustForClockStep re-times them.
//  4. One runner sleeps because nothing is due; another takes the first hint and works. Nobody would wake for the second
//     hint. So each Take signals the lane, and an idle runner sets its timer anew.
//  5. A partition is revoked while a runner has its hints in hand. These hints stay: the row decides whether their run
//     still counts. If the partition comes back meanwhile, the new message shares the hint again. The partition is busy until
//     the hint is released, since its handler may end the process. A hint that only waits keeps no partition busy.
//  6. A suspect waits for one of another queue, which may run for an hour. Had it been taken already, its queue's permit and its
//     owner would be taken for as long. So the seat comes first, and a hint that waits for it is no demand of its queue.
//  7. A hint is held for an earlier task of its order key. When a hint of that task is settled, it is looked at at once: the Release of a runner
//     that has both wakes it after it waits (behind.go).
package hold
