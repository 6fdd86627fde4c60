package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duetime/duetime/bench/protocol"
	"github.com/duetime/duetime/bench/queue"
)

var errNotAble = errors.New("this system can't do that")

// job returns the n-th job of a request. With a Count, the numbers go round while the due times go on: a job that is moved
// again gets another time.
func job(r protocol.Request, n int64) queue.Job {
	id := r.First + n
	if r.Count > 0 {
		id = r.First + n%r.Count
	}
	return queue.Job{ID: id, Due: r.Due + n*r.Step, Owner: id / max(r.PerOwner, 1)}
}

func jobs(r protocol.Request, from, count int64) []queue.Job {
	js := make([]queue.Job, count)
	for i := range js {
		js[i] = job(r, from+int64(i))
	}
	return js
}

func (s *server) schedule(ctx context.Context, r protocol.Request) (protocol.Response, error) {
	began := time.Now()
	err := s.queue.Schedule(ctx, jobs(r, 0, r.Count))
	return protocol.Response{Jobs: r.Count, Micros: time.Since(began).Microseconds()}, err
}

func (s *server) accept(ctx context.Context, r protocol.Request) (protocol.Response, error) {
	if r.Own {
		a, ok := s.queue.(queue.RowAccepter)
		if !ok {
			return protocol.Response{}, errNotAble
		}
		return many(ctx, r, func(ctx context.Context, n int64) (int64, error) { return 1, a.AcceptWithRow(ctx, job(r, n)) })
	}
	bulk := int64(max(r.Bulk, 1))
	return many(ctx, r, func(ctx context.Context, n int64) (int64, error) {
		return bulk, s.acceptOnce(ctx, jobs(r, n*bulk, bulk))
	})
}

// acceptOnce makes jobs as a service that must not forget them does: with a row in its database.
func (s *server) acceptOnce(ctx context.Context, js []queue.Job) error {
	if a, ok := s.queue.(queue.Accepter); ok {
		return a.Accept(ctx, js)
	}
	if err := insertRows(ctx, s.db, js); err != nil {
		return err
	}
	return s.queue.Schedule(ctx, js)
}

func (s *server) move(ctx context.Context, r protocol.Request) (protocol.Response, error) {
	m, ok := s.queue.(queue.Mover)
	if !ok {
		return protocol.Response{}, errNotAble
	}
	return many(ctx, r, func(ctx context.Context, n int64) (int64, error) { return 1, m.Move(ctx, job(r, n)) })
}

func (s *server) moveOwner(ctx context.Context, r protocol.Request) (protocol.Response, error) {
	m, ok := s.queue.(queue.OwnerMover)
	if !ok {
		return protocol.Response{}, errNotAble
	}
	by := time.Duration(r.Step) * time.Microsecond
	owners := max(r.Count/max(r.PerOwner, 1), 1)
	return many(ctx, r, func(ctx context.Context, n int64) (int64, error) {
		moved, err := m.MoveOwner(ctx, r.First/max(r.PerOwner, 1)+n%owners, by)
		return int64(moved), err
	})
}

func (s *server) read(ctx context.Context, r protocol.Request) (protocol.Response, error) {
	q, ok := s.queue.(queue.Reader)
	if !ok {
		return protocol.Response{}, errNotAble
	}
	var mu sync.Mutex
	var took []int64
	answer, err := many(ctx, r, func(ctx context.Context, n int64) (int64, error) {
		began := time.Now()
		err := q.Read(ctx, job(r, n), r.Fresh)
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(began).Microseconds())
		return 1, err
	})
	answer.Took = took
	return answer, err
}

// many makes calls for so long from so many callers, numbered from 0, and counts the jobs that they tell.
func many(ctx context.Context, r protocol.Request, call func(context.Context, int64) (int64, error)) (protocol.Response, error) {
	var next, made atomic.Int64
	began := time.Now()
	until := began.Add(time.Duration(r.Seconds * float64(time.Second)))
	group, ctx := errgroup.WithContext(ctx)
	for range r.Callers {
		group.Go(func() error {
			for time.Now().Before(until) {
				n, err := call(ctx, next.Add(1)-1)
				if err != nil {
					return err
				}
				made.Add(n)
			}
			return nil
		})
	}
	err := group.Wait()
	return protocol.Response{Jobs: made.Load(), Micros: time.Since(began).Microseconds()}, err
}
