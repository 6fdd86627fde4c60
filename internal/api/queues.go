package api

import (
	"context"
	"slices"

	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
)

// queues is the QueueService. A queue has tasks of all owners and kinds, so a token that has some may not call it.
type queues struct{ *service }

// AddQueue adds a queue.
func (s queues) AddQueue(ctx context.Context, r *v1.AddQueueRequest) (*v1.AddQueueResponse, error) {
	who := callerOf(ctx)
	if err := who.checkScope("", ""); err != nil {
		return nil, err
	}
	added, err := s.console.As(who.operator()).AddQueue(ctx, r.GetQueue())
	return &v1.AddQueueResponse{Added: added}, err
}

// RetireQueue ends a queue that was added.
func (s queues) RetireQueue(ctx context.Context, r *v1.RetireQueueRequest) (*v1.RetireQueueResponse, error) {
	who := callerOf(ctx)
	if err := who.checkScope("", ""); err != nil {
		return nil, err
	}
	return &v1.RetireQueueResponse{}, s.console.As(who.operator()).RetireQueue(ctx, r.GetQueue())
}

// ListQueues reads a page of the queues.
func (s queues) ListQueues(ctx context.Context, r *v1.ListQueuesRequest) (*v1.ListQueuesResponse, error) {
	limit, after, err := pageOf(r.GetLimit(), r.GetCursor())
	if err != nil {
		return nil, err
	}
	if err := callerOf(ctx).checkScope("", ""); err != nil {
		return nil, err
	}
	all, err := s.console.Queues(ctx)
	if err != nil {
		return nil, err
	}
	page := slices.DeleteFunc(all, func(q console.QueueLimit) bool { return q.Queue <= after })
	out := &v1.ListQueuesResponse{Queues: messages(page[:min(len(page), limit)], queueMessage)}
	if n := len(out.Queues); n < len(page) {
		out.NextCursor = out.Queues[n-1].GetQueue()
	}
	return out, nil
}

func queueMessage(q console.QueueLimit) *v1.Queue {
	return &v1.Queue{
		Queue: q.Queue, Added: q.Added, PausedAt: stampMs(q.PausedMs), PausedUntil: stampMs(q.PausedUntilMs), Rate: q.Rate.String(),
		OwnerRate: q.OwnerRate.String(), Concurrency: int32(q.Concurrency), ByOperator: q.ByOperator, Limited: q.Limited, Running: int32(q.Running), //nolint:gosec // Bounded by task.MaxConcurrency.
	}
}
