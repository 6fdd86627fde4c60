package settle

import (
	"context"
	"sync/atomic"

	"github.com/duetime/duetime/pkg/task"
)

// Form is how a handler wants to be called.
type Form int

// The forms.
const (
	Single  Form = iota // for one task
	Batch               // for many tasks, each of an owner and subject of its own
	Outside             // for one task, in a transaction of its own: it acts outside MySQL
)

// Handler is a kind's handler without its payload's type.
type Handler struct {
	Info   task.KindInfo
	Form   Form
	Decode func(task.Task) (any, error)
	Run    func(ctx context.Context, call *Call) error

	slow atomic.Bool // its last call took a batch's time: its tasks run by themselves, or others would wait for their locks
}

// apart reports whether a task of this handler shares its transaction with no other.
func (h *Handler) apart() bool { return h.Form == Outside || h.slow.Load() }
