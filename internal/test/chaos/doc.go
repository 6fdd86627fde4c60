// Package chaos is the fault suite: it breaks one thing after the other in a whole deployment while a game is played in
// it, and proves that nothing is lost, doubled, early or stale. Real MySQL, Redis, ZooKeeper and Kafka, our binaries as
// separate processes, links that can be cut. It holds tests only.
//
//	world    the servers, the processes (each has a seat) and, when linked, a proxy for each way from a seat to a server
//	crowd    the players: several hundred calls a second over HTTP, each logged with its answer or the absence of one
//	drill    a world that is played in and broken; fault waits until no task is late and reads the healing time
//	entry    a row of the table: what is broken, in which world, within which bounds
//	verdict  the oracle's: the journal, the pets and the tasks held against each other and against the calls
//
// The oracle trusts nothing but the log of the calls, the game's journal and the tables. It never reaches into a process,
// and imports nothing of the pipeline. A call without an answer may have happened or not, once. TestOracle feeds it with
// broken histories; make chaos-selftest breaks the product itself, in a copy.
//
// A plain go test plays a few rows with half the calls and lenient bounds. make chaos plays all of them to the bounds that
// docs/FAULTS.md states, and writes the table there. TestRollingUpgrade rolls a version out in such a world, and back.
package chaos
