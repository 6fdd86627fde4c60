package protocoltest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/broker"
	"github.com/duetime/duetime/internal/index"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/stream"
	"github.com/duetime/duetime/internal/transition"
	"github.com/duetime/duetime/pkg/task"
)

// The wires are the calls between a scene's processes and their servers. Verbs may run within them.

type wiredStore struct {
	*store.Store
	s *scene
	p *process
}

func (w wiredStore) Begin(ctx context.Context) (*sqlx.Tx, error) {
	if w.p.dead.Load() {
		return nil, errAway
	}
	return w.Store.Begin(ctx)
}

func (w wiredStore) Write(ctx context.Context, q sqlx.ExtContext, changes []transition.Change) error {
	defer w.s.called("write")
	return w.Store.Write(ctx, q, changes)
}

func (w wiredStore) TakeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error) {
	w.s.called("takeover")
	if w.s.mysqlAway {
		return nil, errAway
	}
	return w.Store.TakeOver(ctx, queue, holder, parts)
}

func (w wiredStore) HandOver(ctx context.Context, queue, holder string, parts []int, now time.Time) error {
	if w.p.dead.Load() {
		return errAway
	}
	return w.Store.HandOver(ctx, queue, holder, parts, now)
}

func (w wiredStore) Entries(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	defer w.s.called("entries")
	if w.s.mysqlAway {
		return nil, errAway
	}
	return w.Store.Entries(ctx, ids)
}

// LockFree and LockToRun leave out rows that are held: SQLite locks no single row.
func (w wiredStore) LockFree(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, time.Time, error) {
	return w.Store.LockFree(ctx, q, w.free(ids))
}

func (w wiredStore) LockToRun(ctx context.Context, q sqlx.ExtContext, ids []task.ID) ([]task.Task, map[task.ID]protocol.Bar, time.Time, error) {
	return w.Store.LockToRun(ctx, q, w.free(ids))
}

func (w wiredStore) free(ids []task.ID) []task.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id task.ID) bool { return w.s.held[id] })
}

type wiredIndex struct {
	*index.Index
	s *scene
}

func (w wiredIndex) Standings(ctx context.Context, tasks []task.Task) ([]protocol.Standing, error) {
	defer w.s.called("standings")
	return w.Index.Standings(ctx, tasks)
}

func (w wiredIndex) Fill(ctx context.Context, tasks []task.Task) ([]task.Task, error) {
	w.s.called("fill")
	return w.Index.Fill(ctx, tasks)
}

type wiredStream struct {
	*stream.Kafka
	s *scene
}

func (w wiredStream) Backlog(ctx context.Context, queue string) (stream.Backlog, error) {
	defer w.s.called("backlog")
	return w.Kafka.Backlog(ctx, queue)
}

func (w wiredStream) Publish(ctx context.Context, entries []protocol.Entry, epoch int64) []error {
	w.s.called("publish")
	errs := make([]error, len(entries))
	for i, e := range entries {
		name := w.s.names[e.ID]
		if errs[i] = w.s.valve(ctx, e.Queue, "owner="+e.Owner); errs[i] != nil {
			w.s.say("refused %s", name)
			continue
		}
		if each := w.Kafka.Publish(ctx, entries[i:i+1], epoch); each != nil {
			errs[i] = each[0]
		}
		w.s.say("published %s v%d", name, e.Score.Version())
	}
	return errs
}

func (w wiredStream) Compensate(ctx context.Context, c protocol.Compensation) error {
	if err := w.s.valve(ctx, "compensations"); err != nil {
		return err
	}
	for range c.Rebuild {
		w.s.say("asked for a rebuild")
	}
	return w.Kafka.Compensate(ctx, c)
}

var (
	errRefused = errors.New("refused")
	errAway    = errors.New("away")
)

// valve answers as Kafka does for a message with these properties.
func (s *scene) valve(ctx context.Context, properties ...string) error {
	s.mu.Lock()
	muted, state := s.muted, s.valves["all"]
	for _, p := range properties {
		state = cmp.Or(state, s.valves[p])
	}
	s.mu.Unlock()
	switch state {
	case "refuses":
		return errRefused
	case "rejects":
		return broker.Permanent(errRefused)
	case "late":
		time.Sleep(300 * time.Millisecond)
		return errRefused
	case "mute":
		select {
		case <-muted:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// kafka <queue>|owner=<owner>|all well|refuses|rejects|late|mute says how it answers.
func kafka(s *scene, words []string) {
	s.mu.Lock()
	s.valves[words[0]] = strings.Replace(words[1], "well", "", 1)
	close(s.muted)
	s.muted = make(chan struct{})
	s.mu.Unlock()
	synctest.Wait()
}
