// Package guards takes guards away that docs/ARCHITECTURE.md's failure tables name, one at a time, and runs the tests that
// the tables name for them. The tests must turn red: a test that stays green guards nothing.
//
// The list of guards is data, in list_test.go. A changed file replaces its original by go test -overlay, so that nothing is
// copied. make guards runs the list. `go test` alone only compares the list with the product.
package guards
