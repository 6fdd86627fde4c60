package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Rows that other programs insert may hold what our own limits refuse: an owner, a kind, or a queue that no topic can be named
// after or that nobody has configured. Their tasks fire all the same, if some worker knows their kind, because the row decides
// and the hint only says where to look.

// hints are the entries as they are published: with stand-ins for what no hint can carry.
func (c Config) hints(entries []task.Entry) []task.Entry {
	out := make([]task.Entry, len(entries))
	for i, e := range entries {
		e.Owner, e.Kind = task.HintOwner(e.Owner), task.HintKind(e.Kind)
		if task.CheckQueue(e.Queue) != nil {
			e.Queue = c.another(e)
		}
		out[i] = e
	}
	return out
}

// strays reports whether the entry's queue is none of ours, so that its hint must go to another.
func (c Config) strays(e task.Entry) bool {
	return len(c.Queues) > 0 && !slices.Contains(c.Queues, e.Queue)
}

// another is one of our queues for a task of a queue that is none: with each version the next, until a worker knows the kind.
func (c Config) another(e task.Entry) string {
	if len(c.Queues) == 0 {
		return e.Queue
	}
	return c.Queues[int(e.Score.Version())%len(c.Queues)]
}

// send publishes the hints of entries, and those of strays that no topic takes under another queue. It answers as Publish does.
func (s *shard) send(ctx context.Context, entries []task.Entry) []error {
	errs := s.d.stream.Publish(ctx, s.d.cfg.hints(entries), s.epoch)
	var at []int
	var moved []task.Entry
	for i, err := range errs {
		if e := entries[i]; isPermanent(err) && s.d.cfg.strays(e) {
			e.Queue = s.d.cfg.another(e)
			at, moved = append(at, i), append(moved, e)
		}
	}
	s.d.unlisted.warn(ctx, entries)
	if len(moved) == 0 {
		return errs
	}
	first := entries[at[0]]
	s.d.cfg.Logger.WarnContext(ctx, "queue takes no hints, another carries them",
		"shard", s.number, "n", len(moved), "task_id", first.ID, "kind", first.Kind, "queue", first.Queue)
	refused := s.d.stream.Publish(ctx, s.d.cfg.hints(moved), s.epoch)
	for i, j := range at {
		errs[j] = nil
		if refused != nil {
			errs[j] = refused[i]
		}
	}
	return errs
}

const (
	unlistedInterval  = time.Minute // between two warnings about one queue
	maxUnlistedQueues = 100         // rows of other programs may name any number
)

// unlisted warns of queues that have a topic and are not in this process's configuration: their tasks run, but nobody watches
// their lag.
type unlisted struct {
	cfg Config

	mu     sync.Mutex
	warned map[string]time.Time // by queue
}

func (u *unlisted) warn(ctx context.Context, entries []task.Entry) {
	for _, e := range entries {
		if !u.cfg.strays(e) || !u.isNew(e.Queue, time.Now()) {
			continue
		}
		u.cfg.Logger.WarnContext(ctx, "queue is not in the configuration of this process: add it under queues, and restart",
			"queue", e.Queue, "task_id", e.ID, "kind", e.Kind)
	}
}

// isNew reports whether the queue was not warned of within the last interval.
func (u *unlisted) isNew(queue string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.warned[queue]; known && now.Sub(last) < unlistedInterval || !known && len(u.warned) >= maxUnlistedQueues {
		return false
	}
	u.warned[queue] = now
	return true
}

// isPermanent reports whether the error concerns an entry alone, and will again.
func isPermanent(err error) bool {
	var permanent interface{ Permanent() bool }
	return errors.As(err, &permanent) && permanent.Permanent()
}
