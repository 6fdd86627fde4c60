package clinic

import (
	"context"
	"errors"

	"gorm.io/gorm"
)

// on has GORM run its statements in a transaction of duetime's: a *schedule.Tx.
func on(ctx context.Context, db *gorm.DB, tx gorm.ConnPool) *gorm.DB {
	session := db.Session(&gorm.Session{NewDB: true, Context: ctx, SkipDefaultTransaction: true})
	session.Statement.ConnPool = begun{tx}
	return session
}

// begun tells GORM that a transaction has begun, so that db.Transaction sets a savepoint and doesn't begin another one.
type begun struct{ gorm.ConnPool }

var errNotOurs = errors.New("duetime ends this transaction")

func (begun) Commit() error   { return errNotOurs }
func (begun) Rollback() error { return errNotOurs }
