package pet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/duetime/duetime/pkg/schedule"
)

// requestLife is how long an answer is kept for its Idempotency-Key.
const requestLife = 24 * time.Hour

// answer is the answer to a request, and to its repetitions.
type answer struct {
	status int
	body   []byte
}

// requestKey identifies a request by its Idempotency-Key, and has its body's hash.
type requestKey struct {
	id   [sha256.Size]byte
	body [sha256.Size]byte
}

var errKeyReused = errors.New("the Idempotency-Key was used with another body")

// claim inserts the key. Of two requests at once, the second waits for the first's commit and gets the first's answer.
// claim returns nil for the first request with this key in 24 h. It reads the time after the wait, so that the change
// counts from then.
func (k requestKey) claim(ctx context.Context, tx *schedule.Tx) (*answer, error) {
	// With clientFoundRows in the DSN, the number of affected rows is the same for a new row and an existing one.
	insert := `INSERT INTO pet_requests (id, body_hash, at_ms) VALUES (?, ?, 0)
		ON DUPLICATE KEY UPDATE id = IF(LAST_INSERT_ID(1) = 1, id, id)`
	if tx.DriverName() != "mysql" {
		insert = `INSERT INTO pet_requests (id, body_hash, at_ms) VALUES (?, ?, 0) ON CONFLICT DO NOTHING`
	}
	res, err := tx.ExecContext(ctx, insert, k.id[:], k.body[:])
	if err != nil {
		return nil, fmt.Errorf("claim idempotency key: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return nil, err
	} else if taken, err := res.LastInsertId(); err != nil || n == 1 && (taken == 0 || tx.DriverName() != "mysql") {
		return nil, err
	}
	var was struct {
		Body   []byte `db:"body_hash"`
		Status int    `db:"status"`
		Answer []byte `db:"body"`
		AtMs   int64  `db:"at_ms"`
	}
	if err := tx.GetContext(ctx, &was, `SELECT body_hash, status, body, at_ms FROM pet_requests WHERE id = ?`+forUpdate(tx), k.id[:]); err != nil {
		return nil, fmt.Errorf("read idempotency key: %w", err)
	}
	now, err := tx.Now(ctx)
	switch {
	case err != nil:
		return nil, err
	case was.AtMs <= now.Add(-requestLife).UnixMilli():
		return nil, nil // the key has expired: keep overwrites it
	case !bytes.Equal(was.Body, k.body[:]):
		return nil, errKeyReused
	}
	return &answer{status: was.Status, body: was.Answer}, nil
}

// keep stores the answer in the transaction of the change.
func (k requestKey) keep(ctx context.Context, tx *schedule.Tx, a answer) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE pet_requests SET body_hash = ?, status = ?, body = ?, at_ms = ? WHERE id = ?`,
		k.body[:], a.status, a.body, now.UnixMilli(), k.id[:])
	if err != nil {
		return fmt.Errorf("keep the answer of an idempotency key: %w", err)
	}
	return nil
}

// PurgeRequests deletes at most limit answers that are older than 24 h, and returns their number.
func PurgeRequests(ctx context.Context, tx *schedule.Tx, limit int) (int64, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx, `DELETE FROM pet_requests WHERE id IN (SELECT id FROM (SELECT id FROM pet_requests WHERE at_ms < ? ORDER BY at_ms LIMIT ?) AS old)`,
		now.Add(-requestLife).UnixMilli(), limit)
	if err != nil {
		return 0, fmt.Errorf("purge kept answers: %w", err)
	}
	return res.RowsAffected()
}
