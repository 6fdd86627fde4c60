// Package server starts the servers of the benchmark's peers, each for one test, on a free port of this machine; those
// that duetime itself needs are in internal/test/pipelinetest. A server ends with its test, and with the test's process
// however that ends.
package server

import (
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest" //nolint:depguard // only tests call this package
)

// freePort finds a port that nobody uses. It lies below those that Linux gives to outgoing connections (from 32768), so
// that nobody's dial takes it before the server does.
func freePort(t testing.TB) int {
	t.Helper()
	const low, high = 10240, 32000
	for range 1000 {
		port := low + rand.IntN(high-low)                         //nolint:gosec // not a secret
		if l, err := net.Listen("tcp", local(port)); err == nil { //nolint:noctx // ends at once
			pipelinetest.Must(t, l.Close())
			return port
		}
	}
	pipelinetest.Must(t, errors.New("no free port found in a thousand tries"))
	return 0
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// program finds a file that Debian installs outside PATH; of several versions the newest.
func program(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	pipelinetest.Must(t, err)
	if len(found) == 0 {
		t.Fatalf("%s is not installed: run bench/install", pattern)
	}
	return found[len(found)-1]
}
