package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

func folderName() string { return fmt.Sprintf("/var/tmp/duetime-bench-%d", os.Getuid()) }

// roomy fails where ten million rows would find no place: known before the hour, not in the middle of it.
func roomy(t *testing.T, dir string) {
	t.Helper()
	const memory, disk = 14 << 30, 20 << 30
	var kib int64
	_, err := fmt.Sscan(found(t, "/proc/meminfo", `MemAvailable:\s*(\d+)`), &kib)
	pipelinetest.Must(t, err)
	var fs syscall.Statfs_t
	pipelinetest.Must(t, syscall.Statfs(dir, &fs))
	if free := int64(fs.Bavail) * fs.Bsize; kib<<10 < memory || free < disk {
		t.Fatalf("a whole call needs %d GiB of memory and %d GiB in %s, there are %d and %d", memory>>30, disk>>30, dir, kib>>20, free>>30)
	}
}

// ownFolder is where the servers keep their data: on disk, which /tmp need not be. There is one for each user, and who
// has it locked measures: two benchmarks side by side would measure each other. What an earlier call left is removed;
// the results stay until the next.
func ownFolder(t *testing.T) string {
	t.Helper()
	dir := folderName()
	pipelinetest.Must(t, os.MkdirAll(dir, 0o700))
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	pipelinetest.Must(t, err)
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatalf("another benchmark is running in %s", dir)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	pipelinetest.Must(t, err)
	for _, path := range left {
		pipelinetest.Must(t, os.RemoveAll(path))
	}
	return dir
}
