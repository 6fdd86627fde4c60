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

// answer is what a request is answered, and what a repeated one is answered again.
type answer struct {
	status int
	body   []byte
}

// requestKey is what an Idempotency-Key is scoped to, and the body that it came with.
type requestKey struct {
	id   [sha256.Size]byte
	body [sha256.Size]byte
}

func newRequestKey(method, path, key string, body []byte) requestKey {
	return requestKey{
		id:   sha256.Sum256([]byte(method + "\n" + path + "\n" + key)),
		body: sha256.Sum256(body),
	}
}

var errKeyReused = errors.New("the Idempotency-Key was used with another body")

// claim inserts the key, so that of two requests at once the second waits for the first's commit; it then gives the
// first's answer, to be replayed. It returns nil when the request is the first with this key in 24 h. It asks for the
// time after the wait: the change that follows is to happen then, not before.
func (k requestKey) claim(ctx context.Context, tx *schedule.Tx, forUpdate string) (*answer, error) {
	// The number of affected rows doesn't tell a new row from one that stood before where the DSN has clientFoundRows.
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
	if err := tx.GetContext(ctx, &was, `SELECT body_hash, status, body, at_ms FROM pet_requests WHERE id = ? `+forUpdate, k.id[:]); err != nil {
		return nil, fmt.Errorf("read idempotency key: %w", err)
	}
	now, err := tx.Now(ctx)
	switch {
	case err != nil:
		return nil, err
	case was.AtMs <= now.Add(-requestLife).UnixMilli():
		return nil, nil // as good as new: keep overwrites it
	case !bytes.Equal(was.Body, k.body[:]):
		return nil, errKeyReused
	}
	return &answer{status: was.Status, body: was.Answer}, nil
}

// keep stores the answer in the transaction of the change itself.
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

// PurgeRequests forgets answers kept for over 24 h, at most limit, and tells how many.
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
