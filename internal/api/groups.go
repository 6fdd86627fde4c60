package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/duetime/duetime/internal/group"
	"github.com/duetime/duetime/pkg/console"
	v1 "github.com/duetime/duetime/pkg/duetimev1"
	"github.com/duetime/duetime/pkg/schedule"
	"github.com/duetime/duetime/pkg/task"
)

// groups is the GroupService. A group belongs to whom its follower belongs.
type groups struct{ *service }

// MakeGroup makes a group with its members and its follower.
func (s groups) MakeGroup(ctx context.Context, r *v1.MakeGroupRequest) (*v1.MakeGroupResponse, error) {
	who := callerOf(ctx)
	if r.GetFollower() == nil {
		return nil, &task.FieldError{Field: "follower", Problem: "must be set"}
	}
	then, err := s.spec(ctx, who, r.GetFollower())
	if err != nil {
		return nil, inField("follower", err)
	}
	members, err := s.members(ctx, who, r.GetMembers())
	if err != nil {
		return nil, err
	}
	if r.GetFollower().GetTaskId() != "" {
		repeatable(members, r.GetMembers(), then.ID())
	}
	ids, err := s.schedule(ctx, members, func(tx *schedule.Tx) ([]task.Task, error) {
		return tx.Group(ctx, r.GetName(), members, task.Follower{Spec: then, Open: r.GetOpen()})
	})
	if of, is := errors.AsType[group.FollowerError](err); is {
		if err = asSent(r.GetFollower(), of.Err); errors.Is(err, task.ErrKeyTaken) {
			err = errIDTaken
		}
		err = inField("follower", err)
	}
	if err != nil {
		return nil, err
	}
	g, err := s.console.Group(ctx, r.GetName())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", schedule.ErrCommitUnknown, err)
	}
	return &v1.MakeGroupResponse{Group: groupMessage(g), TaskIds: ids}, nil
}

// repeatable gives members that nothing names ids made of the follower's: a call that is repeated must find the members of the
// first.
func repeatable(specs []task.Spec, of []*v1.NewTask, follower task.ID) {
	for i, t := range of {
		if t.GetTaskId() == "" && t.GetIdempotencyKey() == "" {
			specs[i] = specs[i].With(task.WithID(memberID(follower, i)))
		}
	}
}

// memberID is a UUIDv8 with the follower's time, so that new rows lie side by side.
func memberID(follower task.ID, i int) task.ID {
	id := uuid.NewHash(sha256.New(), uuid.UUID(follower), fmt.Appendf(nil, "member %d", i), 8)
	copy(id[:6], follower[:6])
	return task.ID(id)
}

// schedule makes members in a transaction, and returns their ids. A task that stands must be the one that the caller wants.
func (s groups) schedule(
	ctx context.Context, specs []task.Spec, fn func(tx *schedule.Tx) ([]task.Task, error),
) (ids []string, err error) {
	err = s.client.InTx(ctx, func(tx *schedule.Tx) error {
		rows, err := fn(tx.As(callerOf(ctx).actor()))
		if err != nil {
			return err
		}
		ids = make([]string, len(rows))
		for i, row := range rows {
			if err := checkTaken(specs[i], row); err != nil {
				return inMember(i, err)
			}
			ids[i] = row.ID.String()
		}
		return nil
	})
	return ids, inName(err)
}

// members makes the specs of new members.
func (s groups) members(ctx context.Context, who caller, of []*v1.NewTask) ([]task.Spec, error) {
	if n := len(of); n > task.MaxPerCall {
		return nil, &task.FieldError{Field: "members", Problem: fmt.Sprintf("must be at most %d, and are %d", task.MaxPerCall, n)}
	}
	specs := make([]task.Spec, len(of))
	for i, t := range of {
		var err error
		if specs[i], err = s.spec(ctx, who, t); err != nil {
			return nil, inMember(i, err)
		}
	}
	return specs, nil
}

func inMember(i int, err error) error { return inField(fmt.Sprintf("members[%d]", i), err) }

// AddToGroup makes further members of an open group.
func (s groups) AddToGroup(ctx context.Context, r *v1.AddToGroupRequest) (*v1.AddToGroupResponse, error) {
	if len(r.GetMembers()) == 0 {
		return nil, &task.FieldError{Field: "members", Problem: "must be set"}
	}
	members, err := s.members(ctx, callerOf(ctx), r.GetMembers())
	if err != nil {
		return nil, err
	}
	if _, err := s.seen(ctx, r.GetName()); err != nil {
		return nil, err
	}
	ids, err := s.schedule(ctx, members, func(tx *schedule.Tx) ([]task.Task, error) {
		return tx.AddToGroup(ctx, r.GetName(), members)
	})
	if err != nil {
		return nil, err
	}
	return &v1.AddToGroupResponse{TaskIds: ids}, nil
}

// SealGroup says that a group has all its members.
func (s groups) SealGroup(ctx context.Context, r *v1.SealGroupRequest) (*v1.SealGroupResponse, error) {
	if _, err := s.seen(ctx, r.GetName()); err != nil {
		return nil, err
	}
	err := s.client.InTx(ctx, func(tx *schedule.Tx) error {
		return tx.As(callerOf(ctx).actor()).SealGroup(ctx, r.GetName())
	})
	if err != nil {
		return nil, err
	}
	return &v1.SealGroupResponse{}, nil
}

// GetGroup reads a group with its counts.
func (s groups) GetGroup(ctx context.Context, r *v1.GetGroupRequest) (*v1.GetGroupResponse, error) {
	g, err := s.seen(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return &v1.GetGroupResponse{Group: groupMessage(g)}, nil
}

// seen reads a group. One outside of the caller's scope is not there.
func (s groups) seen(ctx context.Context, name string) (console.Group, error) {
	g, err := s.console.Group(ctx, name)
	if err == nil && !callerOf(ctx).sees(g.FollowerOwner, g.FollowerKind) {
		err = task.ErrNoGroup
	}
	return g, inName(err)
}

// ListGroups reads a page of groups, and leaves out those that the caller does not see.
func (s groups) ListGroups(ctx context.Context, r *v1.ListGroupsRequest) (*v1.ListGroupsResponse, error) {
	limit, after, err := pageOf(r.GetLimit(), r.GetCursor())
	if err != nil {
		return nil, err
	}
	all, next, err := s.console.Groups(ctx, r.GetOpen(), after, limit)
	if err != nil {
		return nil, err
	}
	out := &v1.ListGroupsResponse{NextCursor: next}
	for _, g := range all {
		if callerOf(ctx).sees(g.FollowerOwner, g.FollowerKind) {
			out.Groups = append(out.Groups, groupMessage(g))
		}
	}
	return out, nil
}

func groupMessage(g console.Group) *v1.Group {
	count := func(n int) int32 { return int32(n) } //nolint:gosec // columns of 32 bits
	return &v1.Group{
		Name: g.Name, Sealed: g.State != "open", Open: count(g.Open), Done: count(g.Done), Dead: count(g.Dead), Cancelled: count(g.Cancelled),
		FollowerId: g.FollowerID.String(), FollowerKind: g.FollowerKind, FollowerOwner: g.FollowerOwner, Note: g.Note,
		CreatedAt: stampMs(&g.CreatedAtMs), EndedAt: stampMs(g.EndedAtMs),
	}
}

// inName gives a mistake in a group's name the field's name in requests.
func inName(err error) error {
	if wrong, is := errors.AsType[*task.FieldError](err); is && wrong.Field == "group" {
		return &task.FieldError{Field: "name", Problem: wrong.Problem}
	}
	return err
}
