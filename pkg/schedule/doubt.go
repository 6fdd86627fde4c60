package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/duetime/duetime/pkg/task"
)

// doubts are the shards whose last put failed while others' succeeded: a node of the cluster is away, or a slot is under
// migration. Their tasks are put apart, so that nobody else's wait for them, and not at all for a while after each failure.
type doubts struct {
	logger *slog.Logger

	mu sync.Mutex
	of map[int]*doubt
}

type doubt struct {
	until  time.Time // no put is tried before
	trying bool      // one is under way
}

// part parts tasks into those of sound shards and the others.
func (d *doubts) part(tasks []task.Task) (sound, doubted []task.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) == 0 {
		return tasks, nil
	}
	for _, t := range tasks {
		if d.of[t.Shard] == nil {
			sound = append(sound, t)
		} else {
			doubted = append(doubted, t)
		}
	}
	return sound, doubted
}

// away reports whether the shard failed so lately that it isn't asked.
func (d *doubts) away(shard int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.of[shard]
	return one != nil && time.Now().Before(one.until)
}

// try picks those of the tasks whose shards are to be tried now; until they are settled, their shards are tried by nobody
// else.
func (d *doubts) try(tasks []task.Task) (now, later []task.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mine := map[int]bool{}
	for _, t := range tasks {
		one := d.of[t.Shard]
		if one == nil { // sound again
			one = &doubt{}
			d.set(t.Shard, one)
		}
		if mine[t.Shard] = mine[t.Shard] || !one.trying && !time.Now().Before(one.until); mine[t.Shard] {
			one.trying = true
			now = append(now, t)
		} else {
			later = append(later, t)
		}
	}
	return now, later
}

// settle notes how the try of these tasks ended.
func (d *doubts) settle(tried []task.Task, failed map[int]error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range tried {
		if failed[t.Shard] != nil {
			d.set(t.Shard, &doubt{until: time.Now().Add(breakFor)})
		} else if d.of[t.Shard] != nil {
			delete(d.of, t.Shard)
			if len(d.of) == 0 {
				d.logger.Info("all shards of the index are back")
			}
		}
	}
}

// doubt notes shards whose put failed. They may be tried once more at once.
func (d *doubts) doubt(tasks []task.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range tasks {
		if d.of[t.Shard] == nil {
			d.set(t.Shard, &doubt{})
		}
	}
}

func (d *doubts) set(shard int, one *doubt) {
	if d.of == nil {
		d.of = map[int]*doubt{}
	}
	if len(d.of) == 0 {
		d.logger.Warn("a shard of the index is away, its tasks go to compensation", "shard", shard)
	}
	d.of[shard] = one
}

// putSound puts tasks in one call, and returns those of the shards that failed while others didn't. An error is of all.
func (x *indexer) putSound(ctx context.Context, tasks []task.Task) (failed []task.Task, err error) {
	err = x.index.Put(ctx, tasks)
	shards, partial := task.FailedShards(err)
	if !partial {
		return nil, err
	}
	for _, t := range tasks {
		if shards[t.Shard] != nil {
			failed = append(failed, t)
		}
	}
	return failed, nil
}

// putDoubted puts tasks of doubted shards behind the backs of all others; what can't be tried now, or fails, goes to the
// backlog.
func (x *indexer) putDoubted(ctx context.Context, tasks []task.Task) {
	if len(tasks) == 0 {
		return
	}
	if !x.trial.TryAcquire(1) {
		x.doubts.doubt(tasks)
		x.skip(tasks)
		return
	}
	now, later := x.doubts.try(tasks)
	x.skip(later)
	x.trials.Go(func() {
		defer x.trial.Release(1)
		if len(now) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, x.timeout)
		defer cancel()
		err := x.index.Put(ctx, now)
		shards, partial := task.FailedShards(err)
		if err != nil && !partial {
			shards = map[int]error{}
			for _, t := range now {
				shards[t.Shard] = err
			}
		}
		x.doubts.settle(now, shards)
		for _, t := range now {
			if shards[t.Shard] != nil {
				count(x.m.puts, resultFailed, 1)
				x.backlog.add([]task.Task{t})
			} else {
				count(x.m.puts, resultOK, 1)
			}
		}
	})
}

// skip leaves tasks to compensation.
func (x *indexer) skip(tasks []task.Task) {
	if len(tasks) > 0 {
		count(x.m.puts, resultSkipped, len(tasks))
		x.backlog.add(tasks)
	}
}
