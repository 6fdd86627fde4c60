package precise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a kernel timer that is read like a file: it wakes the runtime as an answer on a connection does.
type alarm struct {
	file *os.File
	raw  syscall.RawConn
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	file := os.NewFile(uintptr(fd), "timer")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close() // the caller gets the first error
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &alarm{file, raw}, nil
}

// wait returns after d, which must be positive, or at once with an error.
func (a *alarm) wait(d time.Duration) error {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	var set error
	err := a.raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &once, nil) })
	if err != nil || set != nil {
		return errors.Join(err, set)
	}
	var expirations [8]byte
	_, err = a.file.Read(expirations[:])
	return err
}

func (a *alarm) close() error { return a.file.Close() }
