package pipelinetest

import (
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// TestReservedPortIsFree reserves ports while other goroutines start processes: a child that is being made has a copy
// of each file of its parent's, and must not keep one of them listening.
func TestReservedPortIsFree(t *testing.T) {
	t.Parallel()
	var children sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for range 4 {
		children.Go(func() {
			for time.Now().Before(end) {
				if err := exec.Command("true").Run(); err != nil { //nolint:noctx // ends at once
					t.Error(err)
				}
			}
		})
	}
	defer children.Wait()
	for time.Now().Before(end) {
		p, err := reservePort()
		Must(t, err)
		l, err := net.Listen("tcp", p.addr()) //nolint:noctx // ends at once
		releasePorts([]*portLock{p})
		if err != nil {
			t.Fatalf("a port that was reserved is not free: %v", err)
		}
		Must(t, l.Close())
	}
}
