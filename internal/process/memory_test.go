package process

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		title, groups, max string
		want               int64
	}{
		{"container or service", "1:name=systemd:/other\n0::/duetime.service\n", "536870912\n", 512 << 20},
		{"no limit", "0::/duetime.service\n", "max\n", math.MaxInt64},
		{"version 1", "4:memory:/duetime.service\n", "536870912\n", math.MaxInt64},
	} {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			groups, group := filepath.Join(root, "cgroup"), filepath.Join(root, "duetime.service")
			err := os.Mkdir(group, 0o700)
			for name, text := range map[string]string{groups: c.groups, filepath.Join(group, "memory.max"): c.max} {
				if err == nil {
					err = os.WriteFile(name, []byte(text), 0o600)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := memoryLimit(groups, root); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
