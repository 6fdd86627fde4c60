package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A worker that gets a partition needs to know how the last holder left it: with nothing running, or with handlers that
// may have ended the process. Each partition has a row that names its holder. A holder writes when it left, once nothing
// runs any more. A holder that crashed, or that lost the partition to another, writes nothing.

// handoverChunk is the most partitions in one statement.
const handoverChunk = 1000

// TakeOver makes a worker's run the holder of the partitions. It returns the partitions that their last holder left with
// nothing running.
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
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	args := []any{queue}
	rows := make([]any, 0, 3*len(parts))
	for _, part := range parts {
		args = append(args, part)
		rows = append(rows, queue, part, holder)
	}
	var left []int
	err = tx.SelectContext(ctx, &left, "SELECT part FROM duetime_handovers"+s.dialect.Force("PRIMARY")+" WHERE queue = ? AND part IN ("+
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

// HandOver records that a worker's run has left the partitions with nothing running. It does not change partitions that
// another run holds by now.
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
