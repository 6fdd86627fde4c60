package api

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/task"
)

// watchPage is how many tasks one look reads.
const watchPage = 500

// watches are the open streams. One loop looks for all of them, so that the database's work grows with the tasks that are
// watched, not with how eagerly streams ask.
type watches struct {
	read  func(ctx context.Context, ids []task.ID) ([]task.Task, error)
	ended chan struct{}
	end   func()
	beat  time.Duration // after which a silent stream gets a message without a task

	mu   sync.Mutex
	open map[*watch]struct{}
}

// watch is one stream's task.
type watch struct {
	id      task.ID
	caller  string         // its name
	version int64          // the highest that the stream knows, or finds in changes; watches.mu guards it
	changes chan task.Task // holds the newest change that the stream has not sent; the zero Task says that the row was purged
}

func newWatches(read func(ctx context.Context, ids []task.ID) ([]task.Task, error)) *watches {
	ended := make(chan struct{})
	return &watches{
		read: read, ended: ended, end: sync.OnceFunc(func() { close(ended) }), beat: watchHeartbeat, open: map[*watch]struct{}{},
	}
}

func (w *watches) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.open)
}

// add opens a watch of a task whose version is known. No caller can take the streams of all others.
func (w *watches) add(row task.Task, caller string) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) >= maxWatches {
		return nil, errTooManyOpen
	}
	mine := 0
	for open := range w.open {
		if open.caller == caller {
			mine++
		}
	}
	if mine >= maxCallerWatches {
		return nil, errShareOpen
	}
	added := &watch{id: row.ID, caller: caller, version: row.Version, changes: make(chan task.Task, 1)}
	w.open[added] = struct{}{}
	return added, nil
}

func (w *watches) remove(closed *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, closed)
}

// pass reads all tasks that are watched, and hands changes to their streams.
func (w *watches) pass(ctx context.Context) error {
	for ids := range slices.Chunk(w.ids(), watchPage) {
		rows, err := w.read(ctx, ids)
		if err != nil {
			return err
		}
		w.hand(ids, rows)
	}
	return nil
}

// ids returns each task once.
func (w *watches) ids() []task.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make(map[task.ID]struct{}, len(w.open))
	for open := range w.open {
		ids[open.id] = struct{}{}
	}
	return slices.Collect(maps.Keys(ids))
}

func (w *watches) hand(ids []task.ID, rows []task.Task) {
	read := make(map[task.ID]task.Task, len(ids))
	for _, id := range ids {
		read[id] = task.Task{} // unless it was read
	}
	for _, row := range rows {
		read[row.ID] = row
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for open := range w.open {
		row, looked := read[open.id]
		if !looked || !row.ID.IsZero() && row.Version <= open.version { // the stream may have begun after this look
			continue
		}
		select {
		case <-open.changes: // the stream sends the newest alone
		default:
		}
		open.changes <- row
		open.version = row.Version
	}
}

// Watch sends a task and its changes until it has ended.
func (s tasks) Watch(ctx context.Context, r *v1.WatchRequest, stream *connect.ServerStream[v1.WatchResponse]) error {
	seen, err := versionOf(r.GetVersion())
	if err != nil {
		return err
	}
	row, err := s.visible(ctx, r.GetTaskId())
	if err != nil {
		return err
	}
	watched, err := s.watches.add(row, callerOf(ctx).name)
	if err != nil {
		return err
	}
	defer s.watches.remove(watched)
	if row.Version != seen {
		if err := stream.Send(&v1.WatchResponse{Task: messageOf(row)}); err != nil {
			return err
		}
	}
	return s.follow(ctx, watched, row, stream)
}

// follow sends the changes of a task that is as the row says.
func (s tasks) follow(ctx context.Context, watched *watch, row task.Task, stream *connect.ServerStream[v1.WatchResponse]) error {
	limit := time.NewTimer(watchLimit)
	defer limit.Stop()
	beat := time.NewTicker(s.watches.beat)
	defer beat.Stop()
	for row.State == task.Pending {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return nil
		case <-s.watches.ended:
			return errStopping
		case <-beat.C:
			if err := stream.Send(&v1.WatchResponse{}); err != nil {
				return err
			}
			continue
		case row = <-watched.changes:
			beat.Reset(s.watches.beat)
		}
		if row.ID.IsZero() {
			return task.ErrNotFound
		}
		if err := stream.Send(&v1.WatchResponse{Task: messageOf(row)}); err != nil {
			return err
		}
	}
	return nil
}
