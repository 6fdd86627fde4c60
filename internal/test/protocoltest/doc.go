// Package protocoltest plays random histories over the real SQL, the real Lua and the real settling of the worker, with
// the wires between them in the test's hands: writes and messages are lost, late and repeated, memories are flushed,
// leaders overlap. It holds tests only. What happened is compared with what each task's owner was told.
package protocoltest
