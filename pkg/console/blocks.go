package console

import (
	"context"
	"encoding/base64"
	"unicode/utf8"

	"github.com/duetime/duetime/pkg/task"
)

// Block is a blocked owner as operators see it.
type Block struct {
	Owner string `json:"owner"`
	AtMs  int64  `json:"at_ms"`
	Actor string `json:"actor"`
}

// BlockPage is a part of the list of blocked owners, which is sorted by owner.
type BlockPage struct {
	Blocks []Block
	Next   string // behind which the next page begins; empty if this page is the last
}

func blockOf(b task.BlockedOwner) Block { return Block{b.Owner, b.At.UnixMilli(), b.Actor} }

// BlockOwner is schedule.Client.BlockOwner under the console's name.
func (c *Console) BlockOwner(ctx context.Context, owner string) (cancelled int, err error) {
	return c.inside().BlockOwner(ctx, c.cfg.Actor, owner)
}

// UnblockOwner ends the block of an owner. An owner that is not blocked stays as it is.
func (c *Console) UnblockOwner(ctx context.Context, owner string) error {
	return c.inside().UnblockOwner(ctx, c.cfg.Actor, owner)
}

// BlockedOwner reads the block of an owner; false if the owner is not blocked.
func (c *Console) BlockedOwner(ctx context.Context, owner string) (Block, bool, error) {
	row, blocked, err := c.store.BlockedOwner(ctx, owner)
	if err != nil || !blocked {
		return Block{}, false, err
	}
	return blockOf(row), true, nil
}

// BlockedOwners reads a page of the blocked owners, behind a place of the list as BlockPage.Next names it. Its limit is 1 to MaxPage,
// default DefaultPage. A place in the list that is none is a *task.FieldError.
func (c *Console) BlockedOwners(ctx context.Context, after string, limit int) (BlockPage, error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return BlockPage{}, err
	}
	owner, err := base64.RawURLEncoding.DecodeString(after) // so that a shell and a URL take it as it is
	if err != nil || !utf8.Valid(owner) {
		return BlockPage{}, errPlace
	}
	rows, err := c.store.BlockedOwners(ctx, string(owner), limit+1) // the additional owner shows that another page follows
	if err != nil {
		return BlockPage{}, err
	}
	blocks, next := paged(rows, limit, blockOf, func(b task.BlockedOwner) string { return base64.RawURLEncoding.EncodeToString([]byte(b.Owner)) })
	return BlockPage{blocks, next}, nil
}
