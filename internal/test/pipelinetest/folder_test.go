package pipelinetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run that was killed leaves its folder without a lock, and in it what it had mounted.
func TestSweepUnmounts(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	killed, err := newRunFolder(base)
	Must(t, err)
	dir, err := mountDisk(killed.path, 1<<20)
	Must(t, err)
	t.Cleanup(func() { _ = removeTree(dir) })
	Must(t, os.WriteFile(filepath.Join(dir, "data", "left"), nil, 0o600))

	living, err := newRunFolder(base)
	Must(t, err)
	if _, err := os.Stat(filepath.Join(dir, "data", "left")); err != nil {
		t.Errorf("a run lost its disk to another that started: %v", err)
	}
	unlock(living.lock)
	unlock(killed.lock)

	next, err := newRunFolder(base)
	Must(t, err)
	defer unlock(next.lock)
	if _, err := os.Stat(killed.path); !os.IsNotExist(err) {
		t.Errorf("the killed run's folder is still there: %v", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	Must(t, err)
	if strings.Contains(string(mounts), dir) {
		t.Errorf("the killed run's disk is still mounted at %s", dir)
	}
}
