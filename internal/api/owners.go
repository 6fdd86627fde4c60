package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// owners is the OwnerService. A block is about all kinds, so a token with kinds may not block.
type owners struct{ *service }

// AwaitDue waits until what is due of an owner has ended, and tells what has not when its time is over. Nothing hastens the workers: they
// find by themselves what no hint has brought.
func (s owners) AwaitDue(ctx context.Context, r *v1.AwaitDueRequest) (*v1.AwaitDueResponse, error) {
	if err := callerOf(ctx).checkScope(r.GetOwner(), r.GetKind()); err != nil {
		return nil, err
	}
	timeout, err := durationOf("timeout", r.GetTimeout())
	if err != nil {
		return nil, err
	}
	if r.GetTimeout() == nil {
		timeout = defaultAwait
	}
	if timeout < minAwait || timeout > maxAwait {
		return nil, &task.FieldError{Field: "timeout", Problem: fmt.Sprintf("must be %v to %v", minAwait, maxAwait)}
	}
	waiting, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	done, err := s.awaitWait(waiting)
	if err != nil {
		return nil, err
	}
	defer done()
	left, err := s.client.AwaitDue(waiting, r.GetOwner(), r.GetKind())
	if len(left) == 0 || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return &v1.AwaitDueResponse{}, err
	}
	return s.leftMessage(ctx, left)
}

// leftMessage tells why tasks that are due may be pending still.
func (s owners) leftMessage(ctx context.Context, left []task.Task) (*v1.AwaitDueResponse, error) {
	queues, err := s.console.Queues(ctx)
	if err != nil {
		return nil, err
	}
	bounds := make(map[string]console.QueueLimit, len(queues))
	for _, q := range queues {
		bounds[q.Queue] = q
	}
	count := func(is func(t task.Task, q console.QueueLimit) bool) (n int32) {
		for _, t := range left {
			if is(t, bounds[t.Queue]) {
				n++
			}
		}
		return n
	}
	return &v1.AwaitDueResponse{
		Left:   count(func(task.Task, console.QueueLimit) bool { return true }),
		Failed: count(func(t task.Task, _ console.QueueLimit) bool { return t.Attempt > 0 }),
		Paused: count(func(_ task.Task, q console.QueueLimit) bool { return q.PausedMs != nil }),
		Limited: count(func(_ task.Task, q console.QueueLimit) bool {
			return q.Rate != task.Rate{} || q.Concurrency > 0 || q.OwnerRate != task.Rate{}
		}),
	}, nil
}

// BlockOwner blocks an owner. It goes on in several transactions: what an error other than a refusal leaves behind is not known.
func (s owners) BlockOwner(ctx context.Context, r *v1.BlockOwnerRequest) (*v1.BlockOwnerResponse, error) {
	who := callerOf(ctx)
	if err := who.checkScope(r.GetOwner(), ""); err != nil {
		return nil, err
	}
	n, err := s.console.As(who.operator()).BlockOwner(ctx, r.GetOwner())
	if _, refused := errors.AsType[*task.FieldError](err); err != nil && !refused {
		err = fmt.Errorf("%w: %w", schedule.ErrCommitUnknown, err)
	}
	return &v1.BlockOwnerResponse{Cancelled: int64(n)}, err
}

// UnblockOwner ends a block.
func (s owners) UnblockOwner(ctx context.Context, r *v1.UnblockOwnerRequest) (*v1.UnblockOwnerResponse, error) {
	who := callerOf(ctx)
	if err := who.checkScope(r.GetOwner(), ""); err != nil {
		return nil, err
	}
	return &v1.UnblockOwnerResponse{}, s.console.As(who.operator()).UnblockOwner(ctx, r.GetOwner())
}

// ListBlockedOwners reads a page of blocked owners, and leaves out those that the caller does not see.
func (s owners) ListBlockedOwners(
	ctx context.Context, r *v1.ListBlockedOwnersRequest,
) (*v1.ListBlockedOwnersResponse, error) {
	limit, after, err := pageOf(r.GetLimit(), r.GetCursor())
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if !inScope(who.kinds, "") {
		return nil, who.checkScope("", "")
	}
	page, err := s.console.BlockedOwners(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	out := &v1.ListBlockedOwnersResponse{NextCursor: page.Next}
	for _, b := range page.Blocks {
		if inScope(who.owners, b.Owner) {
			out.Owners = append(out.Owners, blockMessage(b))
		}
	}
	return out, nil
}

func blockMessage(b console.Block) *v1.BlockedOwner {
	return &v1.BlockedOwner{Owner: b.Owner, BlockedAt: timestamppb.New(time.UnixMilli(b.AtMs)), Actor: b.Actor}
}
