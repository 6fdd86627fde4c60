package pipelinetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Disk is a small file system of its own, in memory, for a server that is to see it full.
type Disk struct {
	t   testing.TB
	dir string
}

// SmallDisk mounts a disk of so many bytes that is gone after the test, which takes the right to mount: root. To run on
// it MySQL needs 160 MiB, Redis 4 MiB, Kafka 16 MiB, and what their data takes.
func SmallDisk(t testing.TB, bytes int64) *Disk {
	t.Helper()
	needServers(t)
	base, err := runFolder()
	Must(t, err)
	dir, err := mountDisk(base, bytes)
	Must(t, err)
	t.Cleanup(func() { Must(t, removeTree(dir)) })
	return &Disk{t: t, dir: dir}
}

// Path returns the folder to start one server in, by StartMySQL and its like. The server's data are on the disk, its
// log is beside it.
func (d *Disk) Path() string { return d.dir }

func (d *Disk) ballast() string { return filepath.Join(d.dir, "data", "ballast") }

// Fill takes all the room there is. A server that deletes files of its own has room again.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Must(d.t, err)
	_, err = io.Copy(f, zeros{})
	Must(d.t, f.Close())
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatalf("fill %s: got %v, want no space left", d.dir, err)
	}
}

// Free gives back what Fill took.
func (d *Disk) Free() { d.t.Helper(); Must(d.t, os.RemoveAll(d.ballast())) }

// zeros reads as zeros without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// mountDisk makes a server's folder under base with a new disk mounted where its data go.
func mountDisk(base string, bytes int64) (string, error) {
	dir, err := os.MkdirTemp(base, "disk-")
	if err != nil {
		return "", fmt.Errorf("make a folder for a disk: %w", err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", fmt.Errorf("make a folder for a disk: %w", err)
	}
	if err := syscall.Mount("duetime-test", data, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)); err != nil {
		return "", fmt.Errorf("mount a small disk, which takes root or CAP_SYS_ADMIN: %w", err)
	}
	return dir, nil
}

// removeTree removes a folder with all that is in it, after unmounting what is mounted there. A mount that is still in
// use goes when its last user does.
func removeTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read what is mounted: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		// The fifth field is where; a space in it would be escaped, and our folders have none.
		if fields := strings.Fields(line); len(fields) > 4 && holds(fields[4], dir) {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", fields[4], err)
			}
		}
	}
	return os.RemoveAll(dir)
}

// empty removes all that is in dir.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	return err
}

func holds(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
