//go:build !linux

package precise

import (
	"errors"
	"time"
)

// alarm exists only on Linux; elsewhere Sleeper uses Go's timers.
type alarm struct{}

func newAlarm() (*alarm, error)         { return nil, errors.ErrUnsupported }
func (*alarm) wait(time.Duration) error { return errors.ErrUnsupported }
func (*alarm) close() error             { return nil }
