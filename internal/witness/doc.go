// Package witness watches the promises of a deployment in production. In the daemon that leads, a small game schedules tasks
// of its own and changes them, about one call a second; a worker in the same process runs them as workers run all others; and
// a judge, which knows only the answers to calls and the effects of tasks, counts what was lost, doubled, early, stale,
// inverted, or in spite of a cancel.
//
// # The protocol
//
//  1. A play holds in memory what was promised of each task: what calls asked for, and answered with yes.
//  2. A play with a call whose answer was lost gets no verdict; nor does one that still waits after half an hour.
//  3. A task's handler writes its effect (duetime_witness_effects) in the transaction of the task, with the database's clock.
//  4. The judge reads the effects each second. It ends a play some seconds after its last due time, once each promised effect
//     is there. What is late is not lost: a task is lost if it has ended without the effect; or if its row is gone, or free
//     and due, for half a minute during which other tasks of the witness took effect.
//  5. The verdict is a row (duetime_witness_plays). An effect that comes after it is doubled.
//  6. A daemon that begins to lead knows nothing of the plays before. The daemon before may lead on for some seconds, and judge
//     its plays: so effects without a verdict stay for an hour, and each term has a recurrence of its own.
//  7. Effects are deleted after the verdict, and tasks some seconds after their end. A verdict with a fault stays.
//
// # What it leaves alone
//
// The queue is none of the configuration: no service can schedule there, no service's worker reads it, and no hook,
// middleware, limit or transaction of a service meets its tasks. internal/store leaves them out of what users list and change.
// While they can't run, the game stops at maxOpen plays.
package witness
