package process

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory has Go collect harder from nine tenths of the memory on at which the kernel kills this process, where the environment
// doesn't set GOMEMLIMIT. The rest is for what Go doesn't count.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		if limit := memoryLimit("/proc/self/cgroup", "/sys/fs/cgroup"); limit < math.MaxInt64 {
			debug.SetMemoryLimit(limit / 10 * 9)
		}
	}
}

// memoryLimit returns the limit of this process's control group, as containers and systemd's MemoryMax set it; math.MaxInt64 if none is
// known. groups names the group of each hierarchy; that of version 2, which alone is asked, begins with "0::".
func memoryLimit(groups, root string) int64 {
	text, _ := os.ReadFile(groups) //nolint:gosec // a constant
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			limit, _ := os.ReadFile(filepath.Join(root, group, "memory.max")) //nolint:gosec // the kernel says where
			if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil {
				return n
			}
		}
	}
	return math.MaxInt64
}
