// Package protocoltest plays histories over the real SQL, the real Lua and the real settling of the worker, with the wires
// between them in the test's hands: writes and messages are lost, late and repeated, memories are flushed, leaders overlap. It
// holds tests only, of two uses:
//
//   - TestProtocolKeepsItsPromises plays random histories, and compares what happened with what each task's owner was told.
//   - TestRaces plays scripts, each of which tells one race. A script's comment says the race and the rule that closes it.
//
// # Scripts
//
// A script is a file of testdata. Each line is a verb with its arguments; the indented lines behind it are its outcome. The test
// compares the outcomes, and
//
//	go test ./internal/test/protocoltest -run TestRaces -update
//
// rewrites them: read what changed. Without the rule that closes its race, a script must fail.
//
// A script has a time of its own, which begins at 0 and goes on by "at <time>" and "every"; times are told since then. SQLite has
// one lock for all writers, and real time waits for it: no handler may sleep while somebody else writes.
//
// Tasks have names instead of ids. Nothing happens by itself: a change is not put until "put", and hints are not read until
// "settle", or a worker that was started, reads them. "during <call>[#n] <verb> …" runs a verb within the next, or the n-th, such
// call of a process: standings, entries, backlog, fill, publish, write, takeover, or any. The comment of each verb's function says
// what it takes.
package protocoltest
