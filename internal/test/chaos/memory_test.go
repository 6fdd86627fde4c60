package chaos_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/duetime/duetime/internal/test/pipelinetest"
)

// maxMemory is what a process may take, in every row.
const maxMemory = 200 << 20

// memory is the most that a process of the world has taken, and whose it was.
type memory struct {
	mu   sync.Mutex
	most int // bytes
	name string
}

// watch reads the peak of a process again and again until its end, or the test's: the kernel forgets it with the process.
func (m *memory) watch(t *testing.T, app pipelinetest.App) {
	t.Helper()
	var watching sync.WaitGroup
	watching.Go(func() {
		for t.Context().Err() == nil && app.Running() {
			if peak, err := memoryOf(app, "VmHWM:"); err == nil {
				m.mu.Lock()
				if peak > m.most {
					m.most, m.name = peak, app.Name
				}
				m.mu.Unlock()
			}
			time.Sleep(100 * time.Millisecond) // between two looks
		}
	})
	t.Cleanup(watching.Wait)
}

// bounded wants each process to have taken little memory.
func (m *memory) bounded(t *testing.T, d *drill) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	d.note(t, "no process took more than %d MiB of memory; the %s did", m.most>>20, m.name)
	if m.most == 0 || m.most > maxMemory {
		t.Errorf("the %s took %d MiB of memory, want at most %d", m.name, m.most>>20, maxMemory>>20)
	}
}

// memoryOf reads one of the kernel's figures of a process, in bytes.
func memoryOf(app pipelinetest.App, figure string) (bytes int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", app.Pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, figure); ok {
			_, err = fmt.Sscan(rest, &bytes)
			return bytes << 10, err
		}
	}
	return 0, fmt.Errorf("no %s of %s in\n%s", figure, app.Name, text)
}
