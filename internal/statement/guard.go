package statement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// ErrEnded says that a statement has ended the transaction.
var ErrEnded = errors.New("a statement has ended the transaction")

// Guard guards a transaction of ours in which a service or a handler sends statements of its own. It asks the server whether
// the transaction still stands, with a savepoint that is set before the first statement that is not known to be plain. Plain
// statements, which are nearly all, cost nothing. Its zero value is ready. It is for one goroutine at a time.
type Guard struct {
	savepoint string // empty while none is set
	hidden    bool   // a statement may have gone back to a savepoint unseen

	// Traced says that a statement may have changed the session.
	Traced bool
}

// Admit prepares for a statement. Before the first one that is not plain it calls before, and sets the savepoint. followed says
// that the caller follows what Savepoint tells of the statement. A statement that certainly ends the transaction is
// left to the connection, which refuses it.
func (g *Guard) Admit(ctx context.Context, tx sqlx.ExecerContext, query string, followed bool, before func(context.Context) error) error {
	effect := EffectOf(query)
	if effect == Plain || effect == Ends {
		return nil
	}
	if g.savepoint == "" {
		if err := before(ctx); err != nil {
			return err
		}
		name := NewSavepoint()
		if _, err := tx.ExecContext(ctx, "SAVEPOINT "+name); err != nil {
			return fmt.Errorf("set savepoint: %w", err)
		}
		g.savepoint = name
	}
	g.hidden = g.hidden || effect == Opaque || !followed
	g.Traced = g.Traced || effect == Opaque
	return nil
}

// Nested reports whether the savepoint is set: before that, no statement was about savepoints.
func (g *Guard) Nested() bool { return g.savepoint != "" }

// Release removes the savepoint, and with it all that were set since, so that nobody else goes back to them. It returns
// ErrEnded if the transaction has ended; if the server doesn't answer, it is the next statement that tells. hidden says that a
// statement may have gone back to a savepoint in a way that the caller could not follow.
func (g *Guard) Release(ctx context.Context, tx sqlx.ExecerContext) (hidden bool, err error) {
	if g.savepoint == "" {
		return false, nil
	}
	_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT "+g.savepoint)
	hidden, g.savepoint, g.hidden = g.hidden, "", false
	if NoSavepoint(err) {
		return hidden, ErrEnded
	}
	return hidden, nil
}

// EndedContext returns a context that has ended: a statement with it does not run. It is for callers that can't return an error.
func EndedContext(ctx context.Context, cause error) context.Context {
	over, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	return over
}

// NewSavepoint returns a name that no statement of others can know.
func NewSavepoint() string { return "duetime_" + rand.Text()[:12] }

// noSavepoint is MySQL's number for a savepoint that does not exist.
const noSavepoint = 1305

// NoSavepoint reports whether the server has answered that there is no such savepoint.
func NoSavepoint(err error) bool {
	if err == nil {
		return false
	}
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && answer.Number == noSavepoint || strings.Contains(err.Error(), "no such savepoint") // SQLite
}
