package settle

import (
	"cmp"
	"context"
	"math"
	"sync/atomic"

	"github.com/duetime/duetime/pkg/task"
)

// Form is how a handler wants to be called.
type Form int

// The forms.
const (
	Single  Form = iota // for one task
	Batch               // for many tasks, each with another owner or subject
	Outside             // for one task, in a transaction of its own, because the handler acts outside MySQL
)

// Handler is a kind's handler without its payload's type.
type Handler struct {
	Info task.KindInfo
	Form Form
	// Run decodes the payloads too: that is code of the service, which may panic, hang, or end the process.
	Run func(ctx context.Context, call *Call) error

	// The last call of a Single handler took Config.BatchTime: each task gets a transaction of its own, or others would wait for
	// locks.
	slow atomic.Bool
}

// needsOwnTransaction reports whether a task of this handler must not share its transaction.
func (h *Handler) needsOwnTransaction() bool {
	return h.Form == Outside || h.Info.Batch == 1 || h.slow.Load()
}

// batch is how many tasks of this handler may share a transaction.
func (h *Handler) batch() int { return cmp.Or(h.Info.Batch, math.MaxInt) }
