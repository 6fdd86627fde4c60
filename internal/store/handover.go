package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A worker that gets a partition needs to know how the last holder left it: in good order, or with handlers running that may
// have ended the process. Each partition has a row that names its holder. A holder that has nothing running any more writes when
// it left. A holder that crashes, or that lost the partition to another, writes nothing.

// handoverChunk is the most partitions in one statement.
const handoverChunk = 1000

// TakeOver makes the run of a worker the holder of the partitions, and returns those that their last holder left in good
// order.
func (s *Store) TakeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error) {
	var left []int
	for chunk := range slices.Chunk(parts, handoverChunk) {
		leftInChunk, err := s.takeOver(ctx, queue, holder, chunk)
		if err != nil {
			return nil, fmt.Errorf("take over %d partitions of queue %s: %w", len(parts), queue, err)
		}
		left = append(left, leftInChunk...)
	}
	return left, nil
}

func (s *Store) takeOver(ctx context.Context, queue, holder string, parts []int) ([]int, error) {
	tx, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	args := []any{queue}
	rows := make([]any, 0, 3*len(parts))
	for _, part := range parts {
		args = append(args, part)
		rows = append(rows, queue, part, holder)
	}
	var left []int
	err = tx.SelectContext(ctx, &left, "SELECT part FROM duetime_handovers"+s.dialect.force("PRIMARY")+" WHERE queue = ? AND part IN ("+
		marks(len(parts))+") AND left_at > 0"+s.dialect.ForUpdate(), args...)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO duetime_handovers (queue, part, holder, left_at) VALUES "+
		strings.Repeat(",(?,?,?,0)", len(parts))[1:]+s.dialect.overwrite("queue, part", "holder", "left_at"), rows...)
	if err != nil {
		return nil, err
	}
	return left, tx.Commit()
}

// HandOver records that the run of a worker has left the partitions with nothing running. Partitions that another run holds by now
// do not change.
func (s *Store) HandOver(ctx context.Context, queue, holder string, parts []int, now time.Time) error {
	for chunk := range slices.Chunk(parts, handoverChunk) {
		args := []any{now.UnixMilli(), queue, holder}
		for _, part := range chunk {
			args = append(args, part)
		}
		_, err := s.db.ExecContext(ctx, "UPDATE duetime_handovers SET left_at = ? WHERE queue = ? AND holder = ? AND part IN ("+marks(len(chunk))+")", args...)
		if err != nil {
			return fmt.Errorf("hand over %d partitions of queue %s: %w", len(parts), queue, err)
		}
	}
	return nil
}
