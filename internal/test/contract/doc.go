// Package contract judges implementations of docs/SQL-CONTRACT.md: programs, in any language, that schedule, move, cancel and
// settle tasks by SQL. Its checks tell each implementation what to do, and compare what the rows say afterwards with the
// contract. Some stop the implementation in the middle of a transaction, look at what others may do meanwhile, and let it go
// on or kill it.
//
// Two implementations pass: the library itself (library/main.go), and examples/python/duetime.py (adapter.py). Variants of the
// second one, each broken in one place, must fail, each in the checks that are listed for it.
//
//	go test ./internal/test/contract                                        # both, and the broken variants
//	DUETIME_CONTRACT="php adapter.php" go test ./internal/test/contract     # a further implementation
//
// The files: process_test.go speaks to an implementation · suite_test.go runs the checks · rows_test.go makes and reads rows ·
// checks_*_test.go have the checks · contract_test.go names the implementations, variants_test.go the broken ones.
//
// # The protocol of an adapter
//
// An adapter is a program around an implementation. Its last three arguments are the host, the port and the schema of a MySQL
// where root has no password. It reads a request a line, as JSON, and answers each by a line: {"answer":"yes"}. One request is
// carried out at a time. The checks start several adapters of one implementation.
//
//	do        fields                     answer
//	schedule  id owner queue due payload yes; taken: a pending task has the key
//	          [key]
//	move      id due [version]           yes; done, cancelled, dead: the task has ended so; missing: there is none;
//	cancel    id [version]               stale: its version is another; locked: somebody holds the row; recurring
//	settle    id [fail] [due] [careless] anything: the row tells
//	look      queue                      the ids of tasks to settle, with commas between; it may take several looks
//
// Each request is a transaction of its own. The kind of all tasks is contract.effect. Times are Unix milliseconds, ids are in
// text form. The effect of a task is, in this order:
//
//  1. INSERT INTO contract_effects (task) VALUES (<the 16 bytes of the id>)
//  2. UPDATE contract_totals SET n = n + 1 WHERE owner = <owner>; with careless, an error of this statement is ignored
//  3. with due: it moves its own task there
//  4. with fail: it fails, with this text
//
// A request may have "stops", a list of points. At each of them the adapter writes {"at":"<point>"} and goes on after it has
// read a line, whatever is in it. The points are: begin and end of the effect (before 1, and between 3 and 4), and written
// (between a change and its commit).
package contract
