package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/duetime/duetime/internal/loop"
	"github.com/duetime/duetime/pkg/task"
)

// rebuild fills shards whose memory was lost. It polls the markers itself, so a lost request costs a second.
//
//  1. Set each missing shard's marker to building, with a token of our own.
//  2. One scan over all pending rows, near-due first, puts those of the missing shards.
//  3. Rows changed during the scan are compared once more: they may have moved past it, and their own put or drop may
//     have come before ours.
//  4. Set the marker, only where the token still stands: a second flush midway took it away, and the next pass starts
//     again.
type rebuild struct{ r *Reconciler }

func (b *rebuild) pass(ctx context.Context, now clock) (loop.Result, error) {
	tokens, err := b.begin(ctx)
	if err != nil || len(tokens) == 0 {
		return loop.Result{}, err
	}
	b.r.cfg.Logger.InfoContext(ctx, "rebuild begins", "n", len(tokens))
	began := now()
	rows, err := b.scan(ctx, tokens, now)
	b.r.metrics.repairs.WithLabelValues("rebuilt").Add(float64(rows))
	if err != nil {
		return loop.Result{}, err
	}
	recent := &changed{r: b.r}
	if _, err := recent.window(ctx, began.Add(-b.r.cfg.Longest), now().Add(time.Millisecond), now); err != nil {
		return loop.Result{}, err
	}
	broken, err := b.end(ctx, tokens)
	if err != nil {
		return loop.Result{}, err
	}
	b.r.cfg.Logger.InfoContext(ctx, "rebuild ended", "n", rows, "broken", broken)
	return loop.Result{More: broken > 0}, nil
}

// end sets the markers and counts the shards whose memory was lost again meanwhile.
func (b *rebuild) end(ctx context.Context, tokens map[int]string) (broken int, err error) {
	for shard, token := range tokens {
		stood, err := b.r.index.EndRebuild(ctx, shard, token)
		if err != nil {
			return broken, fmt.Errorf("mark shard %d: %w", shard, err)
		}
		if !stood {
			broken++
		}
	}
	return broken, nil
}

// begin claims the shards without a marker; those that another rebuild left half done are among them.
func (b *rebuild) begin(ctx context.Context) (map[int]string, error) {
	shards, err := b.r.cfg.Shards(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the number of shards: %w", err)
	}
	marked, err := b.r.index.Marked(ctx, shards)
	if err != nil {
		return nil, fmt.Errorf("read the generation markers: %w", err)
	}
	tokens := map[int]string{}
	for shard, ok := range marked {
		if ok {
			continue
		}
		if tokens[shard], err = b.r.index.BeginRebuild(ctx, shard); err != nil {
			return nil, fmt.Errorf("begin rebuild of shard %d: %w", shard, err)
		}
	}
	return tokens, nil
}

func (b *rebuild) scan(ctx context.Context, tokens map[int]string, now clock) (int, error) {
	total := 0
	var after task.Cursor
	for {
		rows, err := b.r.store.Pending(ctx, time.Time{}, farFuture, after, page)
		if err != nil {
			return total, err
		}
		var lost []task.Task
		for _, row := range rows {
			if _, missing := tokens[row.Shard]; missing {
				lost = append(lost, row)
			}
		}
		n, err := b.fill(ctx, lost, now)
		total += n
		if err != nil || len(rows) < page {
			return total, err
		}
		after = behind(rows)
	}
}

// fill writes rows that stand in neither set as they were read: a writer's newer put replaces ours, and one that came
// before makes ours fail. Those that stand somewhere are mended the careful way.
func (b *rebuild) fill(ctx context.Context, rows []task.Task, now clock) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	seen, err := b.r.index.Standings(ctx, rows)
	if err != nil {
		return 0, err
	}
	var absent []task.Repair
	var standing []task.Task
	for i, row := range rows {
		score := task.ScoreOf(row)
		right := task.Standing{Due: score, Owner: score}
		switch seen[i] {
		case nowhere:
			absent = append(absent, task.Repair{Task: row, Seen: nowhere, Right: right})
		case right:
		default:
			standing = append(standing, row)
		}
	}
	n := 0
	if len(absent) > 0 {
		if n, err = b.r.index.Repair(ctx, absent); err != nil {
			return n, err
		}
	}
	return n, b.r.settle(ctx, "rebuilt", standing, now, putAlways)
}

// farFuture is beyond every due time that a row can have.
var farFuture = time.UnixMilli(1 << 41)
