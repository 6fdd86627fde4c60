package settle

import (
	"fmt"
	"time"
)

// timeout bounds one call of a kind's handler.
type timeout struct {
	after time.Duration
	cause error // of the end of the handler's context: it names the limit
}

// newTimeouts returns each kind's timeout: its own, or the worker's.
func newTimeouts(handlers map[string]*Handler, ofWorker time.Duration) map[string]timeout {
	timeouts := make(map[string]timeout, len(handlers))
	for kind, h := range handlers {
		t := timeout{ofWorker, fmt.Errorf("%w worker.handler_timeout (Config.HandlerTimeout) of %v", errTimeout, ofWorker)}
		if own := h.Info.Timeout; own > 0 {
			t = timeout{own, fmt.Errorf("%w the timeout of kind %s (task.Timeout) of %v", errTimeout, kind, own)}
		}
		timeouts[kind] = t
	}
	return timeouts
}
