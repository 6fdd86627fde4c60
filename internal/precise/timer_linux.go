package precise

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kernelTimer is one that is read like a file: it wakes the runtime as an answer on a connection does.
type kernelTimer struct {
	file *os.File
	raw  syscall.RawConn
}

func newKernelTimer() (*kernelTimer, error) {
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
	return &kernelTimer{file, raw}, nil
}

// wait returns after d, which must be positive, or at once with an error.
func (t *kernelTimer) wait(d time.Duration) error {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	var set error
	err := t.raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &once, nil) })
	if err != nil || set != nil {
		return errors.Join(err, set)
	}
	var expirations [8]byte
	_, err = t.file.Read(expirations[:])
	return err
}

func (t *kernelTimer) close() error { return t.file.Close() }
