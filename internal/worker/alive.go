package worker

import (
	"fmt"
	"time"
)

// hungAfter is long beside a pass of the worker's own loop, which takes a second at most, and short beside an outage that
// nobody sees. A machine that is overloaded gets each pass done within it.
const hungAfter = time.Minute

// turned notes that the worker's own loop got through a pass, which looks at every queue's hints.
func (w *Worker) turned() {
	w.metrics.tidied.SetToCurrentTime()
	now := time.Now()
	w.lastPass.Store(&now)
}

// Alive returns an error if the worker hangs: its own loop has not got through a pass for a minute. The process should then
// be started anew. A worker that has not begun, or waits for a server, is alive. So is one whose handlers take long: it ends
// by itself with ErrStuck when they ignore their limits.
func (w *Worker) Alive() error {
	last := w.lastPass.Load()
	if last == nil {
		return nil
	}
	if ago := time.Since(*last); ago > hungAfter {
		return fmt.Errorf("worker hangs: its own loop got through its last pass %v ago", ago.Round(time.Second))
	}
	return nil
}
