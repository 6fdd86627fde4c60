// Command testrun runs tests for scripts/test: each leg is one `go test` of a module on one SQL server. The servers start once
// and are shared by all packages of a leg, each test in a schema, topics and keys of its own.
//
//	testrun [-tier test|check|nightly] [-page]
//
// It promises:
//
//  1. Nothing is red for want of speed alone. A test that failed runs once more, alone, when all legs are through. If it
//     passes, the run passes, prints FLAKY with its name last, and lists it in docs/TESTING.md.
//  2. A fault is not excused by its second run: more than maxRetried failures are no flakes, and nothing runs again. Neither
//     does what doesn't compile.
//  3. What a tier leaves out is said at its end.
//
// With -page it also writes docs/TESTING.md anew: where the time went.
package main
