package embedded

import (
	"context"
	"slices"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// Drill injects outages for practice: it breaks the pipeline's own parts, which then heal without help.
type Drill struct{ p *Pipeline }

// Drill returns the drill of this pipeline.
func (p *Pipeline) Drill() Drill { return Drill{p} }

// FlushIndex empties the index, as FLUSHALL does.
func (d Drill) FlushIndex() { d.p.memory.FlushAll() }

// DeposeLeader ends the event leader's term, as an expired session does; false if no process leads.
func (d Drill) DeposeLeader() bool { return d.p.ballot.Depose("event") }

// Overdue counts the pending tasks that have been due for longer than by, on the database's clock.
func (d Drill) Overdue(ctx context.Context, by time.Duration) (int64, error) {
	return d.p.store.Overdue(ctx, by)
}

// Epoch returns the newest epoch of the event leader.
func (d Drill) Epoch(ctx context.Context) (int64, error) { return d.p.epochs.Current(ctx, "event") }

// Drift compares the index with the rows and counts the differences that remain after two seconds.
func (d Drill) Drift(ctx context.Context) (missing, extra int64, err error) {
	drift, err := d.p.Console().Drift(ctx)
	return drift.Missing, drift.Extra, err
}

// Tasks reads rows by id, finished ones too; its result lacks unknown ids.
func (d Drill) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return d.p.store.Get(ctx, nil, ids)
}

// Marked reports whether every shard of the index is complete: filled since its memory was last lost.
func (d Drill) Marked(ctx context.Context) (bool, error) {
	layout, err := d.p.store.Layout(ctx)
	if err != nil {
		return false, err
	}
	marked, err := d.p.index.Marked(ctx, layout.Polled())
	return err == nil && !slices.Contains(marked, false), err
}
