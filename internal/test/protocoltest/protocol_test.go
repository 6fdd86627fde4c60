package protocoltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duetime/duetime/internal/inside"
	"github.com/duetime/duetime/internal/protocol"
	"github.com/duetime/duetime/internal/reconcile"
	"github.com/duetime/duetime/internal/store"
	"github.com/duetime/duetime/internal/test/pipelinetest"
	"github.com/duetime/duetime/internal/test/worldtest"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	protocolShards = 2
	protocolLead   = 5 * time.Millisecond
	healLimit      = 30 * time.Second
)

var bell = task.NewKind[int]("bell") // of so many tones

// belief is what a task's owner was told.
type belief struct {
	owner, key string
	tones      int // of the newest replace

	due       time.Time
	cancelled bool
	fired     bool
}

// run is one random history.
type run struct {
	*system
	r       *rapid.T
	tasks   map[task.ID]*belief
	ids     []task.ID
	late    []task.Task        // versions that were committed, or not, and may be put at any later moment
	claimed [][]protocol.Entry // claims not yet acknowledged
	log     []protocol.Hint    // what Kafka holds
	epoch   int64
}

// TestProtocolKeepsItsPromises plays random histories of schedule, reschedule, replace, cancel, claim, acknowledge, flush,
// lost and late puts, puts of versions that never committed, lost and repeated messages, zombie leaders and restarted workers;
// then lets the daemon heal, and compares with what the owners were told: one effect each, never early, none after a cancel
// that answered yes.
func TestProtocolKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *store.Store{"SQLite": onSQLite, "MySQL": onMySQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playHistories(t, newSystem(t, open(t), worldtest.Memory(t), protocolShards))
		})
	}
}

func playHistories(t *testing.T, p *system) {
	t.Helper()
	p.restartWorker()
	rapid.Check(t, func(r *rapid.T) {
		h := &run{system: p, r: r, tasks: map[task.ID]*belief{}, epoch: p.newEpoch()}
		p.memory.FlushAll()
		r.Repeat(map[string]func(*rapid.T){
			"schedule":   h.schedule,
			"roll back":  h.rollBack,
			"reschedule": h.reschedule,
			"replace":    h.replace,
			"cancel":     h.cancel,
			"late put":   h.latePut,
			"claim":      h.claim,
			"zombie":     h.zombie,
			"ack":        h.ack,
			"deliver":    h.deliver,
			"lose":       h.loseMessage,
			"flush":      func(*rapid.T) { p.memory.FlushAll() },
			"elect":      func(*rapid.T) { h.epoch = p.newEpoch() },
			"restart":    func(*rapid.T) { p.restartWorker() },
			"wait":       func(*rapid.T) { time.Sleep(time.Millisecond) }, // lets moments come; nothing is waited for
			"":           h.check,
		})
		h.heal()
		h.check(r)
		for id, b := range h.tasks {
			if !b.cancelled && !b.fired {
				r.Fatalf("task %s was lost", id)
			}
		}
	})
}

func (p *system) newEpoch() int64 {
	epoch, err := p.store.Take(p.t.Context(), "event")
	pipelinetest.Must(p.t, err)
	return epoch
}

func (h *run) must(err error) {
	if err != nil {
		h.r.Fatal(err)
	}
}

// inTx runs fn in a transaction and gives the versions that it wrote.
func (h *run) inTx(commit bool, fn func(tx *schedule.Tx) error) ([]task.Task, error) {
	tx, err := h.store.Begin(h.t.Context())
	h.must(err)
	door := schedule.NewTx(tx, h.store)
	if err := fn(door); err != nil || !commit {
		h.must(tx.Rollback())
		return schedule.Inside(inside.Key{}, door).Ledger().Touched(0), err
	}
	h.must(tx.Commit())
	return schedule.Inside(inside.Key{}, door).Ledger().Touched(0), nil
}

// put puts what was written, now, later or never.
func (h *run) put(r *rapid.T, written []task.Task) {
	switch rapid.SampledFrom([]string{"now", "later", "never", "now and again later"}).Draw(r, "put") {
	case "now":
		h.must(h.index.Put(h.t.Context(), written))
	case "later":
		h.late = append(h.late, written...)
	case "now and again later":
		h.must(h.index.Put(h.t.Context(), written))
		h.late = append(h.late, written...)
	}
}

func (h *run) when(r *rapid.T) task.When {
	return task.In(time.Duration(rapid.IntRange(-2, 15).Draw(r, "ms")) * time.Millisecond)
}

func (h *run) spec(r *rapid.T, key string) task.Spec {
	owner := fmt.Sprintf("owner-%d", rapid.IntRange(0, 3).Draw(r, "owner"))
	return bell.New(owner, 0, h.when(r), task.Key(key))
}

func (h *run) schedule(r *rapid.T) {
	key := task.NewID().String() // not one of an earlier history
	written, err := h.inTx(true, func(tx *schedule.Tx) error {
		_, err := tx.Schedule(h.t.Context(), h.spec(r, key))
		return err
	})
	h.must(err)
	h.tasks[written[0].ID] = &belief{owner: written[0].Owner, key: key, due: written[0].DueAt}
	h.ids = append(h.ids, written[0].ID)
	h.put(r, written)
}

// rollBack writes versions that never commit, and puts them all the same.
func (h *run) rollBack(r *rapid.T) {
	written, err := h.inTx(false, func(tx *schedule.Tx) error {
		if len(h.ids) == 0 || rapid.Bool().Draw(r, "new task") {
			_, err := tx.Schedule(h.t.Context(), h.spec(r, task.NewID().String()))
			return err
		}
		_, err := tx.Reschedule(h.t.Context(), rapid.SampledFrom(h.ids).Draw(r, "task"), h.when(r))
		return err
	})
	if err == nil {
		h.put(r, written)
	}
}

func (h *run) reschedule(r *rapid.T) {
	h.change(r, func(tx *schedule.Tx, id task.ID) error {
		_, err := tx.Reschedule(h.t.Context(), id, h.when(r))
		return err
	}, func(b *belief, now task.Task) { b.due = now.DueAt })
}

// replace schedules under the key of a pending task. Its subject, which tasks keep, must not make another entry.
func (h *run) replace(r *rapid.T) {
	pending := slices.DeleteFunc(slices.Clone(h.ids), func(id task.ID) bool { return h.tasks[id].fired || h.tasks[id].cancelled })
	if len(pending) == 0 {
		r.Skip("nothing is pending")
	}
	id := rapid.SampledFrom(pending).Draw(r, "task")
	b := h.tasks[id]
	tones := rapid.IntRange(0, 9).Draw(r, "tones")
	subject := task.Subject(rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "subject"))
	spec := bell.New(b.owner, tones, h.when(r), task.KeyReplace(b.key), subject)
	commits := rapid.IntRange(0, 3).Draw(r, "commits") > 0
	written, err := h.inTx(commits, func(tx *schedule.Tx) error {
		got, err := tx.Schedule(h.t.Context(), spec)
		if err == nil && got.ID != id {
			return fmt.Errorf("%s was scheduled beside the pending %s", got.ID, id)
		}
		return err
	})
	h.must(err)
	if commits {
		b.due, b.tones = written[0].DueAt, tones
	}
	h.put(r, written) // also what never committed
}

func (h *run) cancel(r *rapid.T) {
	h.change(r, func(tx *schedule.Tx, id task.ID) error {
		_, err := tx.Cancel(h.t.Context(), id)
		return err
	}, func(b *belief, _ task.Task) { b.cancelled = true })
}

// change makes one change of a known task; yes and no must fit what its owner was told before.
func (h *run) change(r *rapid.T, fn func(*schedule.Tx, task.ID) error, told func(*belief, task.Task)) {
	if len(h.ids) == 0 {
		r.Skip("no task")
	}
	id := rapid.SampledFrom(h.ids).Draw(r, "task")
	b := h.tasks[id]
	written, err := h.inTx(true, func(tx *schedule.Tx) error { return fn(tx, id) })
	switch {
	case errors.Is(err, task.ErrAlreadyDone) && b.fired, errors.Is(err, task.ErrAlreadyCancelled) && b.cancelled:
	case err != nil:
		r.Fatalf("change of task %s, told %+v: %v", id, *b, err)
	case b.fired || b.cancelled:
		r.Fatalf("change of task %s answered yes, told %+v", id, *b)
	default:
		told(b, written[0])
		h.put(r, written)
	}
}

func (h *run) latePut(r *rapid.T) {
	if len(h.late) == 0 {
		r.Skip("nothing is late")
	}
	h.must(h.index.Put(h.t.Context(), []task.Task{rapid.SampledFrom(h.late).Draw(r, "version")}))
}

func (h *run) claim(r *rapid.T) { h.claimUnder(r, h.epoch) }

// zombie is a leader of the past. Where its successor has not been yet, it still gets something.
func (h *run) zombie(r *rapid.T) { h.claimUnder(r, h.epoch-1) }

func (h *run) claimUnder(r *rapid.T, epoch int64) {
	now, err := h.store.Now(h.t.Context(), nil)
	h.must(err)
	shard := rapid.IntRange(0, protocolShards-1).Draw(r, "shard")
	claim, err := h.index.Claim(h.t.Context(), shard, epoch, now, protocolLead, 3, nil)
	h.must(err)
	h.publish(claim.Entries)
	if len(claim.Entries) > 0 {
		h.claimed = append(h.claimed, claim.Entries)
	}
}

func (h *run) publish(entries []protocol.Entry) {
	for _, e := range entries {
		h.log = append(h.log, protocol.Hint{
			ID: e.ID, Kind: e.Kind, Owner: e.Owner, RunAt: e.Score.RunAt().UnixMilli(), Version: e.Score.Version(),
		})
	}
}

// ack acknowledges some earlier claim, under the newest epoch.
func (h *run) ack(r *rapid.T) {
	if len(h.claimed) == 0 {
		r.Skip("nothing was claimed")
	}
	i := rapid.IntRange(0, len(h.claimed)-1).Draw(r, "claim")
	for shard := range protocolShards {
		_, err := worldtest.Acknowledge(h.t.Context(), h.index, shard, h.epoch, h.claimed[i])
		h.must(err)
	}
	h.claimed = slices.Delete(h.claimed, i, i+1)
}

// deliver gives the worker some messages, which may come again.
func (h *run) deliver(r *rapid.T) {
	if len(h.log) == 0 {
		r.Skip("the log is empty")
	}
	batch := rapid.SliceOfN(rapid.SampledFrom(h.log), 1, 4).Draw(r, "hints")
	_, err := h.worker.Pass(h.t.Context(), batch)
	h.must(err)
}

func (h *run) loseMessage(r *rapid.T) {
	if len(h.log) == 0 {
		r.Skip("the log is empty")
	}
	i := rapid.IntRange(0, len(h.log)-1).Draw(r, "message")
	h.log = slices.Delete(h.log, i, i+1)
}

// check compares the effects with what the owners were told, and looks for tasks that an index shows twice.
func (h *run) check(r *rapid.T) {
	var effects []struct {
		ID    string `db:"task_id"`
		Tones int    `db:"tones"`
		Due   int64  `db:"due_ms"`
		At    int64  `db:"at_ms"`
	}
	h.must(h.store.DB().SelectContext(h.t.Context(), &effects, `SELECT task_id, tones, due_ms, at_ms FROM effects`))
	seen := map[task.ID]bool{}
	for _, e := range effects {
		id, err := task.ParseID(e.ID)
		h.must(err)
		b, ours := h.tasks[id]
		switch {
		case !ours: // of an earlier history
		case seen[id]:
			r.Fatalf("task %s took effect twice", id)
		case b.cancelled:
			r.Fatalf("task %s took effect although it was cancelled", id)
		case e.Tones != b.tones:
			r.Fatalf("task %s took effect with %d tones, was given %d", id, e.Tones, b.tones)
		case e.Due != b.due.UnixMilli() || e.At < e.Due:
			r.Fatalf("task %s took effect at %d for %d, due at %d", id, e.At, e.Due, b.due.UnixMilli())
		default:
			b.fired = true
		}
		seen[id] = true
	}
	for shard := range protocolShards {
		for _, entries := range h.entries(shard) {
			ids := map[task.ID]bool{}
			for _, e := range entries {
				if ids[e.ID] {
					r.Fatalf("task %s has two entries", e.ID)
				}
				ids[e.ID] = true
			}
		}
	}
}

// heal lets the daemon, a leader and a worker run until nothing is pending and nothing stands in the index.
func (h *run) heal() {
	ctx, stop := context.WithCancel(h.t.Context())
	daemon, err := reconcile.New(reconcile.Config{
		Interval: 10 * time.Millisecond, Lookahead: time.Minute, Grace: 10 * time.Millisecond,
		Layout: func(context.Context) (protocol.Layout, error) {
			return protocol.Layout{Shards: protocolShards, ShardsEver: protocolShards}, nil
		},
		Logger: slog.New(slog.DiscardHandler),
	}, h.store, h.index, silence{})
	h.must(err)
	done := make(chan error, 1)
	go func() { done <- daemon.Lead(ctx, 1<<40, silence{}) }()
	defer func() {
		stop()
		h.must(<-done)
	}()
	for limit := time.Now().Add(healLimit); ; {
		h.step()
		pending, err := h.store.Counts(h.t.Context())
		h.must(err)
		if pending[task.Pending] == 0 && len(h.memory.Keys()) > 0 && h.empty() {
			return
		}
		if time.Now().After(limit) {
			h.r.Fatalf("%d tasks are still pending, index empty: %v", pending[task.Pending], h.empty())
		}
	}
}

// step is one pass of an honest leader and a worker.
func (h *run) step() {
	for shard := range protocolShards {
		now, err := h.store.Now(h.t.Context(), nil)
		h.must(err)
		claim, err := h.index.Claim(h.t.Context(), shard, h.epoch, now, protocolLead, 100, nil)
		h.must(err)
		h.log = nil
		h.publish(claim.Entries)
		_, err = h.worker.Pass(h.t.Context(), h.log)
		h.must(err)
		_, err = worldtest.Acknowledge(h.t.Context(), h.index, shard, h.epoch, claim.Entries)
		h.must(err)
	}
}

// empty reports whether no set holds anything.
func (h *run) empty() bool {
	for shard := range protocolShards {
		if both := h.entries(shard); len(both[0])+len(both[1]) > 0 {
			return false
		}
	}
	return true
}
