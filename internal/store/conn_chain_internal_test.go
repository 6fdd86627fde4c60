package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"
)

// session is a driver's connection that records the statements that it gets.
type session struct{ said []string }

func (s *session) record(ctx context.Context, statement string) error {
	if ctx.Err() == nil {
		s.said = append(s.said, statement)
	}
	return ctx.Err()
}

func (s *session) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not asked for") }
func (s *session) Close() error                        { return nil }
func (s *session) Begin() (driver.Tx, error)           { return nil, errors.New("not asked for") }

func (s *session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	return sessionTx{s}, s.record(ctx, "BEGIN")
}

func (s *session) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return nil, s.record(ctx, query)
}

type sessionTx struct{ of *session }

func (t sessionTx) Commit() error   { return t.of.record(context.Background(), "COMMIT") }
func (t sessionTx) Rollback() error { return t.of.record(context.Background(), "ROLLBACK") }

// inChain is a connection with an empty transaction that began this long ago.
func inChain(ago time.Duration) (*conn, *session) {
	s := &session{}
	return &conn{Conn: s, of: &connector{}, chain: chain{enabled: true, confirmed: true, began: time.Now().Add(-ago)}}, s
}

func TestChain(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	work := func(c *conn, o driver.TxOptions) error {
		tx, err := c.BeginTx(context.Background(), o)
		if err != nil {
			return err
		}
		if _, err := c.ExecContext(context.Background(), "DO 1", nil); err != nil {
			return err
		}
		return tx.Commit()
	}
	for name, c := range map[string]struct {
		ago    time.Duration
		do     func(c *conn) error
		said   string
		fails  bool
		broken bool
		open   bool
	}{
		"a fresh one is taken":        {0, func(c *conn) error { return work(c, driver.TxOptions{}) }, "DO 1, COMMIT AND CHAIN", false, false, true},
		"an old one is not":           {maxChainedAge, func(c *conn) error { return work(c, driver.TxOptions{}) }, "BEGIN, DO 1, COMMIT AND CHAIN", false, false, true},
		"one with options is its own": {0, func(c *conn) error { return work(c, driver.TxOptions{ReadOnly: true}) }, "ROLLBACK, BEGIN, DO 1, COMMIT", false, false, false},
		"a statement of its own": {0, func(c *conn) error {
			_, err := c.ExecContext(context.Background(), "DO 1", nil)
			return err
		}, "ROLLBACK, DO 1", false, false, false},
		"a statement whose caller has left": {0, func(c *conn) error {
			_, err := c.ExecContext(ended, "DO 1", nil)
			return err
		}, "", true, true, false},
		"a BEGIN whose caller has left": {maxChainedAge, func(c *conn) error {
			_, err := c.BeginTx(ended, driver.TxOptions{})
			return err
		}, "", true, true, false},
		"a rollback": {0, func(c *conn) error {
			tx, err := c.BeginTx(context.Background(), driver.TxOptions{})
			if err != nil {
				return err
			}
			return tx.Rollback()
		}, "ROLLBACK", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, s := inChain(c.ago)
			err := c.do(conn)
			if got := strings.Join(s.said, ", "); got != c.said || (err != nil) != c.fails {
				t.Errorf("said %q and answered %v, want %q and an error: %v", got, err, c.said, c.fails)
			}
			if conn.IsValid() == c.broken || conn.chain.open() != c.open {
				t.Errorf("serves on: %v, in an empty transaction: %v; want %v, %v", conn.IsValid(), conn.chain.open(), !c.broken, c.open)
			}
		})
	}
}
