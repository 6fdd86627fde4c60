// Package worker runs tasks: it consumes the queues of a mux's kinds, and has each hint settled in a transaction (internal/settle).
// duetime.Client and embedded.Pipeline make a Worker by New, and run it until their context ends.
//
// # A hint's path
//
//  1. Intake (queue.go). A session delivers messages by partition. Each is counted in its partition's prefix (package
//     offsets) and its hint is held (package hold). When too much is uncommitted, fetching pauses.
//  2. Take (queue.go, queue.run). When a hint's moment has come, a runner takes it with all else that is due in its lane, up
//     to a batch, without lingering. A paused queue hands nothing out (pause.go).
//  3. Settle (package settle): lock the rows, decide by them, run the handlers, mark done, commit.
//  4. Release. Settled hints leave; their offsets are committed as a contiguous prefix (package offsets). The index, the
//     dead topic and the service's hooks follow without anybody waiting for them (internal/indexwriter, letters.go, hooks.go).
//
// While no hint comes, the worker finds due tasks itself (look.go, degraded.go), and goes on at step 2.
//
// What becomes of a hint after the stop stands in stop.go; who runs beside the runners, in tidy.go and pause.go.
package worker
