package console

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"github.com/duetime/duetime/pkg/task"
)

// Group is a group of tasks as operators see it. Its members have the label duetime.group, by which Filter.Labels finds them.
type Group struct {
	Name          string  `json:"name"`
	State         string  `json:"state"` // open, sealed or ended
	Open          int     `json:"open"`
	Done          int     `json:"done"`
	Dead          int     `json:"dead"`
	Cancelled     int     `json:"cancelled"`
	FollowerID    task.ID `json:"follower_id"` // the id that the follower has, or will have
	FollowerKind  string  `json:"follower_kind"`
	FollowerOwner string  `json:"follower_owner"`
	Note          string  `json:"note,omitempty"` // why the follower was not scheduled when the group ended
	CreatedAtMs   int64   `json:"created_at_ms"`
	EndedAtMs     *int64  `json:"ended_at_ms,omitempty"`
}

func groupOf(g task.Group) Group {
	state := "open"
	switch {
	case !g.EndedAt.IsZero():
		state = "ended"
	case g.Sealed:
		state = "sealed"
	}
	return Group{
		Name: g.Name, State: state, Open: g.Open, Done: g.Done, Dead: g.Dead, Cancelled: g.Cancelled, FollowerID: g.FollowerID,
		FollowerKind: g.FollowerKind, FollowerOwner: g.FollowerOwner, Note: g.Note, CreatedAtMs: g.CreatedAt.UnixMilli(),
		EndedAtMs: unixMs(g.EndedAt),
	}
}

// Group reads a group with its counts; task.ErrNoGroup if there is none.
func (c *Console) Group(ctx context.Context, name string) (Group, error) {
	g, err := c.client.GetGroup(ctx, name)
	return groupOf(g), err
}

// Groups reads a page of groups, by their names, behind a place of the list as an earlier call has answered with next; "" begins, and is
// the answer of the last page. With open it reads those that have not ended. Its limit is 1 to MaxPage, default DefaultPage. A place in
// the list that is none is a *task.FieldError.
func (c *Console) Groups(ctx context.Context, open bool, after string, limit int) (groups []Group, next string, err error) {
	if limit, err = pageLimit(limit); err != nil {
		return nil, "", err
	}
	name, err := base64.RawURLEncoding.DecodeString(after) // so that a shell and a URL take it as it is
	if err != nil || !utf8.Valid(name) {
		return nil, "", errPlace
	}
	rows, err := c.store.Groups(ctx, string(name), open, limit+1) // the additional group shows that another page follows
	if err != nil {
		return nil, "", err
	}
	groups, next = paged(rows, limit, groupOf, func(g task.Group) string { return base64.RawURLEncoding.EncodeToString([]byte(g.Name)) })
	return groups, next, nil
}
