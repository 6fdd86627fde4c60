package pipelinetest

import (
	"os"
	"testing"
)

// tierEnv says which tier of tests runs: test, check or nightly. Without it everything runs.
const tierEnv = "DUETIME_TEST_TIER"

// Nightly leaves the test to make nightly, and to whoever runs its package by hand. It is for what a change seldom breaks and
// takes long: name the test that holds the promise meanwhile.
func Nightly(t testing.TB) {
	t.Helper()
	if tier := os.Getenv(tierEnv); tier == "test" || tier == "check" {
		t.Skip("left to make nightly")
	}
}

// needServers leaves a test that starts programs out of go test -short.
func needServers(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs servers")
	}
}
