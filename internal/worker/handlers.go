package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/settle"
	"github.com/duetime/duetime/pkg/task"
	"github.com/duetime/duetime/pkg/worker"
)

// handlers are those of a mux, by kind.
type handlers map[string]*settle.Handler

// infos returns what the kinds of the queues say, once for each of their names, in alphabetical order.
func (h handlers) infos(queues []string) []task.KindInfo {
	var infos []task.KindInfo
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if info := h[name].Info; slices.Contains(queues, info.Queue) {
			info.Name = name
			infos = append(infos, info)
		}
	}
	return infos
}

// of returns the kinds of a queue in alphabetical order.
func (h handlers) of(queue string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(kind string) bool { return h[kind].Info.Queue != queue })
}

// LongestTimeout returns the longest timeout that a kind of the mux has of its own (task.Timeout); 0 if none has one.
// Config.HandlerTimeout must not be below it.
func LongestTimeout(mux *worker.Mux) (longest time.Duration) {
	all, _, _ := worker.Inside(inside.Key{}, mux) // New says what is wrong
	for _, h := range all {
		longest = max(longest, h.Info.Timeout)
	}
	return longest
}
