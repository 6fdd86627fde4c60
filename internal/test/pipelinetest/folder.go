package pipelinetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	runPrefix = "duetime-test-"
	// runSpace is the free room, in bytes, that makes a memory file system worth using: a container's default
	// /dev/shm of 64 MB doesn't hold one MySQL.
	runSpace = 1 << 30
)

// folder is this test process's, locked for as long as the process lives: by that the next run tells what a killed one
// left. The lock's file has to be referred to, or the garbage collector closes it, lock and all, and the folder is
// swept away under a living run.
type folder struct {
	path string
	lock *os.File
}

// run is the folder of this process, made at the first call.
var (
	run     = sync.OnceValues(func() (folder, error) { runUsed.Store(true); return newRunFolder(runBase()) })
	runUsed atomic.Bool
)

// runFolder returns the path of this process's folder.
func runFolder() (string, error) {
	f, err := run()
	return f.path, err
}

// runBase is memory where there is enough of it: a fresh MySQL is several times faster there.
func runBase() string {
	var fs syscall.Statfs_t
	const shm = "/dev/shm"
	if err := syscall.Statfs(shm, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < runSpace { //nolint:gosec // a block size is positive
		return os.TempDir()
	}
	probe, err := os.MkdirTemp(shm, runPrefix+"probe")
	if err != nil {
		return os.TempDir()
	}
	_ = os.Remove(probe)
	return shm
}

// newRunFolder makes and locks a folder under base, after removing those whose process is gone.
func newRunFolder(base string) (folder, error) {
	guard, err := lockFile(filepath.Join(base, fmt.Sprintf("duetime-test.%d.lock", os.Getuid())), syscall.LOCK_EX)
	if err != nil {
		return folder{}, err
	}
	defer unlock(guard)
	sweep(base)
	dir, err := os.MkdirTemp(base, runPrefix)
	if err != nil {
		return folder{}, fmt.Errorf("make the run's folder: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	return folder{path: dir, lock: lock}, err
}

// sweep removes the folders that nobody holds locked.
func sweep(base string) {
	left, err := filepath.Glob(filepath.Join(base, runPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		if held, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = removeTree(dir)
			unlock(held)
		}
	}
}

// lockFile opens path, makes it if it must, and locks it as how says. The lock ends with the file or the process.
func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the package's own folders
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", path, err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// unlock says so to the system before it closes the file: a child process that is being made has a copy of each file until
// it runs its own program, and would keep the lock until then.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing it does the same, only later
	_ = f.Close()
}

// cacheFolder is where what is slow to make is kept between runs: Kafka's jars, a new MySQL's data.
// DUETIME_TEST_CACHE overrides it.
func cacheFolder() (string, error) {
	dir := os.Getenv("DUETIME_TEST_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
		}
		dir = filepath.Join(user, "duetime")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // whoever runs the tests names it
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	return dir, nil
}

// cached returns the cache's folder called name, filled by fill when it is not there yet. Processes that need it at
// the same time wait for the first; a folder appears whole, by a rename, or not at all.
func cached(name string, fill func(dir string) error) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	guard, err := lockFile(filepath.Join(cache, name+".lock"), syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer unlock(guard)
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh, err := os.MkdirTemp(cache, name+".new-")
	if err != nil {
		return "", fmt.Errorf("make a folder in the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if err := fill(fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, dir); err != nil {
		return "", fmt.Errorf("keep %s in the cache: %w", name, err)
	}
	return dir, nil
}

// moduleRoot finds duetime's own go.mod at or above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod")) //nolint:gosec // a go.mod above the working folder
		if err == nil && strings.HasPrefix(string(mod), "module github.com/duetime/duetime\n") {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no go.mod of duetime at or above the working folder")
		}
		dir = filepath.Dir(dir)
	}
}
