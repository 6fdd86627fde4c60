package console

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/ledger"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/pkg/task"
)

// Pause is a paused queue.
type Pause struct {
	Queue   string `json:"queue"`
	SinceMs int64  `json:"since_ms"`
}

// Pauses reads the paused queues, sorted by name.
func (c *Console) Pauses(ctx context.Context) ([]Pause, error) {
	paused, err := c.store.Paused(ctx)
	if err != nil {
		return nil, err
	}
	pauses := []Pause{}
	for _, queue := range slices.Sorted(maps.Keys(paused)) {
		pauses = append(pauses, Pause{queue, paused[queue].UnixMilli()})
	}
	return pauses, nil
}

// Pause asks all workers to pause the queue, which the configuration must have; they do within two seconds. changed is false if
// it was paused before.
func (c *Console) Pause(ctx context.Context, queue string) (changed bool, err error) {
	if err := c.CheckQueue(queue); err != nil {
		return false, err
	}
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if changed, err = c.store.Pause(ctx, tx, queue, changes.Moment()); err != nil || !changed {
			return err
		}
		changes.Note(event(changes, protocol.EventPaused, queue))
		return nil
	})
	return changed, err
}

// Resume ends a pause; changed is false if there was none. A queue that is not paused must be one of the configuration's.
func (c *Console) Resume(ctx context.Context, queue string) (changed bool, err error) {
	err = c.inTx(ctx, func(tx *sqlx.Tx, changes *ledger.Tx) error {
		if changed, err = c.store.Resume(ctx, tx, queue); err != nil || !changed {
			return err
		}
		changes.Note(event(changes, protocol.EventResumed, queue))
		return nil
	})
	if err == nil && !changed {
		if wrong := c.CheckQueue(queue); wrong != nil {
			err = &task.FieldError{Field: "queue", Problem: strings.TrimPrefix(wrong.Error(), "queue ")}
		}
	}
	return changed, err
}
