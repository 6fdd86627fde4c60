// Package diskwheel is a timing wheel fed from files: each hour has a file a shard (the job's number mod 4), to which
// Schedule appends and which it flushes to the disk before it answers. The files of the hour that runs, and from a minute
// before, of the next one, are loaded into a hashed wheel with ticks of 1 ms. So memory holds an hour, and a restart
// finds all that was acknowledged.
//
// What ran is noted in a file beside each, once a second. A kill -9 therefore loses nothing and runs the work of up to
// the last second again: effects doubled are what this design costs, unless each handler finds out by itself. Jobs can't
// be moved: they stand in files that are only appended to. Only one process may use a folder.
package diskwheel

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/alternative"
	"github.com/duetime/duetime/bench/alternative/wheel"
	"github.com/duetime/duetime/bench/queue"
)

const (
	noteEvery = time.Second // how often what ran is noted
	ahead     = time.Minute // how long before its hour a file is loaded
)

// Queue is the files and the wheel.
type Queue struct {
	wheel *wheel.Queue
	files *files
}

// Open reads the files in the environment's folder and loads what is not noted as run.
func Open(_ context.Context, env queue.Env) (queue.Queue, error) {
	fs, err := openFiles(env.Dir)
	if err != nil {
		return nil, err
	}
	q := &Queue{wheel: wheel.NewHashed(env.Workers), files: fs}
	return q, q.load(time.Now())
}

// Schedule appends the jobs to their hours' files. Those of a loaded hour go to the wheel as well.
func (q *Queue) Schedule(ctx context.Context, jobs []queue.Job) error {
	loaded, err := q.files.write(jobs, time.Now())
	return errors.Join(err, q.wheel.Schedule(ctx, loaded))
}

// Work runs what is on the wheel, loads the hours as they come, and notes what ran.
func (q *Queue) Work(ctx context.Context, e *queue.Effects) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return alternative.Poll(ctx, noteEvery, q.keep) })
	group.Go(func() error {
		return q.wheel.Run(ctx, func(ctx context.Context, j queue.Job) error {
			if err := e.Do(ctx, j); err != nil {
				return err
			}
			q.files.ran(j.ID)
			return nil
		})
	})
	return group.Wait()
}

// Close notes what ran.
func (q *Queue) Close() error { return q.files.close() }

func (q *Queue) keep(context.Context) (bool, error) {
	now := time.Now()
	return false, errors.Join(q.load(now), q.files.note(now))
}

func (q *Queue) load(now time.Time) error {
	jobs, err := q.files.load(hour(now.Add(ahead).UnixMicro()))
	return errors.Join(err, q.wheel.Schedule(context.Background(), jobs))
}
