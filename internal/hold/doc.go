// Package hold keeps hints in time order until their moment, and hands them to runners.
//
// It promises that a hint is handed out no earlier than TakeAhead before its moment, in time order within its lane, and to
// one runner at a time. Hints of one owner are never with two runners at once: these would lock the same business rows from
// two sides. Hints of the same task and version share one place and settle together. It decides nothing about a task.
//
// # Phases of a hint
//
//	Add ──> waiting ──Take──> in hand ──Release──> settled: its messages' offsets may be committed
//	           ^                 │  │                 ^
//	           └─────Release─────┘  └─Revoke─> revoked ──Release──> forgotten, if no message was added meanwhile
//
// A waiting hint also leaves by Expire (settled unlooked, because its patience is over) and by Revoke (forgotten).
//
// # Invariants
//
//   - A waiting hint stands in exactly one timeline: its lane's, or its owner's where the owner is with a runner or was.
//   - The fields of a hint belong to the hold while it waits, and to its runner while that has it in hand. Phase, messages
//     and revoked partitions always belong to the hold.
//   - An owner with waiting hints of a lane and no runner has one hint in that lane.
//
// # Races that shaped it
//
//  1. One hint that cannot be settled keeps the offsets of all behind it from being committed. So patience ends: Expire
//     settles it, and the daemon's sweep puts its task again. A hint that merely waits for a free runner is not stuck.
//  2. The failure of a hint is not charged yet, because the server still runs what its handler left behind. If it expired,
//     the handler would be called again and never charged. Its patience is longer (unchargedFactor).
//  3. The database's clock is stepped. Back: hints would wait longer than patience. Forward: they would seem to have waited
//     already. AdjustForClockStep re-times them.
//  4. One runner sleeps because nothing is due; another takes the first hint and works. Who wakes for the second? Each
//     taking signals the lane, so that an idle runner sets its timer anew.
//  5. A partition is lost while a runner has its hints in hand. They stay: the row decides whether their run still counts.
//     If the partition comes back meanwhile, the new message shares the place again.
package hold
