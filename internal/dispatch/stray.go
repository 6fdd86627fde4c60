package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/duetime/duetime/internal/protocol"
)

// Rows that other programs insert may break our limits: an owner or a kind that no hint can carry, a queue that no topic
// can be named after, or a queue that is neither configured nor was added. Their tasks still fire if some worker knows their kind: the row
// decides, and the hint only says where to look.

// hints returns the entries as they are published: names that no hint can carry are replaced.
func (c Config) hints(entries []protocol.Entry) []protocol.Entry {
	out := make([]protocol.Entry, len(entries))
	for i, e := range entries {
		e.Owner, e.Kind = protocol.HintOwner(e.Owner), protocol.HintKind(e.Kind)
		if protocol.CheckQueue(e.Queue) != nil {
			e.Queue = c.substituteQueue(e)
		}
		out[i] = e
	}
	return out
}

// isStray reports whether the entry's queue is neither configured nor was added, so that its hint may have to go to another queue. The witness's
// queue is in no configuration, and no worker of another queue may meet its tasks.
func (d *Dispatcher) isStray(e protocol.Entry) bool {
	if len(d.cfg.Queues) == 0 || slices.Contains(d.cfg.Queues, e.Queue) || e.Queue == protocol.WitnessQueue {
		return false
	}
	added := d.added.Load()
	return added == nil || !slices.Contains(*added, e.Queue)
}

// learnQueues reads the queues that operators have added, and warns of strays. While MySQL is away, the last ones are known.
func (d *Dispatcher) learnQueues(ctx context.Context) error {
	if d.cfg.Added != nil {
		queues, err := d.cfg.Added(ctx)
		if err != nil {
			return err
		}
		d.added.Store(&queues)
	}
	d.warnOfStrays(ctx)
	return nil
}

// substituteQueue returns a configured queue for a task whose queue has no topic. With each version it is the next
// queue, until one has a worker that knows the kind.
func (c Config) substituteQueue(e protocol.Entry) string {
	if len(c.Queues) == 0 {
		return e.Queue
	}
	return c.Queues[int(e.Score.Version())%len(c.Queues)]
}

// send publishes the hints of entries. If a stray's queue has no topic, its hint goes to another queue. send answers as
// Publish does.
func (s *shard) send(ctx context.Context, entries []protocol.Entry) []error {
	errs := s.d.stream.Publish(ctx, s.d.cfg.hints(entries), s.epoch)
	var at []int
	var moved []protocol.Entry
	for i, err := range errs {
		if e := entries[i]; isPermanent(err) && s.d.isStray(e) {
			e.Queue = s.d.cfg.substituteQueue(e)
			at, moved = append(at, i), append(moved, e)
		}
	}
	s.d.noteStrays(entries)
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
	maxUnlistedQueues = 100         // that are warned of: rows of other programs can name any number
)

// unlisted are the queues of strays.
type unlisted struct {
	mu     sync.Mutex
	met    map[string]protocol.Entry // since the list was read last: it may name the queue by now
	warned map[string]time.Time      // when it was last warned of the queue
}

// noteStrays notes the queues that are not known here: they were added a moment ago, or are in no list.
func (d *Dispatcher) noteStrays(entries []protocol.Entry) {
	for _, e := range entries {
		if d.isStray(e) {
			d.unlisted.note(e)
		}
	}
}

func (u *unlisted) note(e protocol.Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.met) < maxUnlistedQueues {
		u.met[e.Queue] = e
	}
}

// warnOfStrays warns of queues that have a topic but are neither in this process's configuration nor were added: their tasks run, but no
// metric shows their lag.
func (d *Dispatcher) warnOfStrays(ctx context.Context) {
	for _, e := range d.unlisted.take(time.Now(), d.isStray) {
		d.cfg.Logger.WarnContext(ctx, "queue is not in the configuration of this process: add it by duetime queue add",
			"queue", e.Queue, "task_id", e.ID, "kind", e.Kind)
	}
}

// take returns an entry of each queue that was met and is a stray still, but for those of which was warned in the last unlistedInterval.
func (u *unlisted) take(now time.Time, isStray func(protocol.Entry) bool) (entries []protocol.Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for queue, e := range u.met {
		if !isStray(e) {
			continue
		}
		if last, known := u.warned[queue]; known && now.Sub(last) < unlistedInterval || !known && len(u.warned) >= maxUnlistedQueues {
			continue
		}
		u.warned[queue] = now
		entries = append(entries, e)
	}
	clear(u.met)
	return entries
}

// isPermanent reports whether the error concerns only its entry, and every retry would fail too.
func isPermanent(err error) bool {
	var permanent interface{ Permanent() bool }
	return errors.As(err, &permanent) && permanent.Permanent()
}
