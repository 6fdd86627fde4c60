package api_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/duetime/duetime/internal/test/pipelinetest"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// A small body that unpacks to a long message is unpacked as far as a message may be long: its length stays unknown.
func TestUnpackingIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range slices.Sorted(maps.Keys(transports)) {
		c := w.dial(t, "", append(transports[name], connect.WithSendGzip())...)
		task := newTask("ann")
		_, err := c.Schedule(t.Context(), &v1.ScheduleRequest{Task: task})
		pipelinetest.Must(t, err)
		task.Subject = strings.Repeat("a", 32<<20)
		_, err = c.Schedule(t.Context(), &v1.ScheduleRequest{Task: task})
		if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
