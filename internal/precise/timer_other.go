//go:build !linux

package precise

import (
	"errors"
	"time"
)

// kernelTimer exists only on Linux; elsewhere Sleeper uses Go's timers.
type kernelTimer struct{}

func newKernelTimer() (*kernelTimer, error)   { return nil, errors.ErrUnsupported }
func (*kernelTimer) wait(time.Duration) error { return errors.ErrUnsupported }
func (*kernelTimer) close() error             { return nil }
