package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duetime/duetime/internal/operate"
	"github.com/duetime/duetime/internal/parts"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

const (
	requeuePage   = 1000                   // pending rows looked at by one statement
	requeueRounds = 20                     // through all pending rows, while some are still found
	requeueRest   = 500 * time.Millisecond // before a round for what workers held
)

func (t *tool) taskRequeue() *cobra.Command {
	var kind, from, to string
	cmd := &cobra.Command{
		Use: "requeue --kind KIND --to QUEUE", Short: "Move a kind's pending tasks to another queue", Args: cobra.NoArgs,
		Long: `Move a kind's pending tasks to another queue.

A task waits in the queue that its kind had when it was scheduled. Where the kind has moved, and the old queue's workers don't
know it any more, this moves what waits. Due times, attempts and keys stay. It goes through all pending tasks, in transactions
of ` + fmt.Sprint(bulkBatch) + `, each with its lines in the history, while services and workers go on; what was interrupted can be run again.
Let the services of before end first: they go on scheduling into the old queue.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind == "" || to == "" {
				return errors.New("give both --kind and --to")
			}
			return t.with(cmd.Context(), func(p *parts.Parts) error {
				if !slices.Contains(p.Config.Queues, to) {
					return fmt.Errorf("--to: queue %q is none of the configuration's: %s", to, strings.Join(p.Config.Queues, ", "))
				}
				if err := t.confirm(cmd.Context(), fmt.Sprintf("move all pending tasks of kind %s to queue %s?", kind, to)); err != nil {
					return err
				}
				return t.requeue(cmd.Context(), p, requeue{kind: kind, from: from, to: to})
			})
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "the kind whose tasks move")
	cmd.Flags().StringVar(&from, "from", "", "only those that wait in this queue")
	cmd.Flags().StringVar(&to, "to", "", "the queue to which they move, one of the configuration's")
	complete(cmd, "kind", t.kinds)
	complete(cmd, "to", t.queues)
	return cmd
}

// requeue is one run of the command.
type requeue struct {
	kind, from, to string

	parts    *parts.Parts
	operator *operate.Operator
	client   *schedule.Client
	moved    int // in all rounds
	held     int // in this round
	unsaid   int // old entries of which the index could not be told
}

// requeue goes through the pending tasks until a round finds none: some were held by workers, some came in between.
func (t *tool) requeue(ctx context.Context, p *parts.Parts, r requeue) (err error) {
	if r.client, err = p.Scheduler(nil); err != nil {
		return err
	}
	defer r.client.Close(context.WithoutCancel(ctx))
	r.parts, r.operator = p, operate.New(p.Store, p.Actor)
	defer func() {
		_, _ = fmt.Fprintf(t.out, "moved %d %s to %s\n", r.moved, plural(r.moved, "task"), r.to)
		if r.unsaid > 0 {
			_, _ = fmt.Fprintf(t.errs, "old entries of %d %s are left in the index, for the daemon's audit to remove\n", r.unsaid, plural(r.unsaid, "task"))
		}
	}()
	for range requeueRounds {
		before := r.moved
		if err := r.round(ctx); err != nil {
			return err
		}
		if r.moved == before && r.held == 0 {
			return nil
		}
		if r.held > 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(requeueRest):
			}
		}
	}
	if r.held > 0 {
		return fmt.Errorf("%d %s left where they are, locked by somebody, such as workers that run them: run this again", r.held, plural(r.held, "task"))
	}
	return fmt.Errorf("still more tasks of kind %s are found outside of queue %s: does a service of before schedule them?", r.kind, r.to)
}

// round goes once through the pending rows.
func (r *requeue) round(ctx context.Context) error {
	r.held = 0
	for after := (task.Cursor{}); ; {
		rows, err := r.parts.Store.Pending(ctx, time.Time{}, farFuture, after, requeuePage)
		if err != nil {
			return err
		}
		var ids []task.ID
		for _, row := range rows {
			if row.Kind == r.kind && row.Queue != r.to && (r.from == "" || row.Queue == r.from) {
				ids = append(ids, row.ID)
			}
		}
		for part := range slices.Chunk(ids, bulkBatch) {
			if err := r.move(ctx, part); err != nil {
				return err
			}
		}
		if len(rows) < requeuePage {
			return nil
		}
		last := rows[len(rows)-1]
		after = task.Cursor{At: last.RunAt, ID: last.ID}
	}
}

var farFuture = time.UnixMilli(1 << 41) // beyond every due time that a row can have

func (r *requeue) move(ctx context.Context, ids []task.ID) error {
	out, err := r.operator.Requeue(ctx, ids, r.kind, r.to)
	if err != nil || len(out.Changed)+out.Held == 0 {
		return err
	}
	r.moved += len(out.Changed)
	r.held += out.Held
	// The new entries first: a task that stands twice fires once, one that stands nowhere would wait for a sweep.
	r.client.IndexTasks(ctx, out.Changed)
	if r.parts.Index.Put(ctx, leftQueue(out)) != nil {
		r.unsaid += len(out.Before)
	}
	return nil
}

// leftQueue makes of the tasks what drops their old entries: an entry's member names the queue.
func leftQueue(out operate.Requeued) []task.Task {
	gone := slices.Clone(out.Before)
	for i := range gone {
		gone[i].State, gone[i].Version = task.Cancelled, out.Changed[i].Version
	}
	return gone
}
