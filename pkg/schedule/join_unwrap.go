package schedule

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/jmoiron/sqlx/reflectx"
)

// Joinable is what Join takes: a transaction by the one method that all kinds of them have. It is no promise that Join
// finds a transaction in it.
type Joinable interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// maxNested is how many transactions may hold one another: GORM's prepared one in a plugin's, and the driver's in that.
const maxNested = 8

// unwrap finds the transaction of database/sql in the caller's, and how sqlx maps columns to fields in it. Statements go to it
// directly: a library that prepares and keeps each text would keep ours, of which there are as many as lists have lengths.
func unwrap(tx Joinable) (own *sql.Tx, mapper *reflectx.Mapper, err error) {
	mapper = reflectx.NewMapperFunc("db", strings.ToLower)
	var inner any = tx
	for range maxNested {
		switch t := inner.(type) {
		case *sql.Tx:
			if t == nil {
				return nil, nil, fmt.Errorf("schedule: Join(%T): there is no transaction in it", tx)
			}
			return t, mapper, nil
		case *sqlx.Tx:
			if t != nil && t.Mapper != nil {
				mapper = t.Mapper
			}
		}
		if inner = fieldTx(inner); inner == nil {
			break
		}
	}
	return nil, nil, fmt.Errorf("schedule: Join(%T): must be a *sql.Tx or hold one, as a *sqlx.Tx, a bun.Tx, and GORM's ConnPool within a transaction do", tx)
}

// fieldTx returns what stands in the field Tx of a struct, its own or a promoted one; nil if there is none.
func fieldTx(v any) any {
	s := reflect.ValueOf(v)
	for s.Kind() == reflect.Pointer || s.Kind() == reflect.Interface {
		s = s.Elem()
	}
	if s.Kind() != reflect.Struct {
		return nil
	}
	field, ok := s.Type().FieldByName("Tx")
	if !ok {
		return nil
	}
	inner, err := s.FieldByIndexErr(field.Index) // an error: it is promoted from a nil pointer
	if err != nil || !inner.CanInterface() {
		return nil
	}
	return inner.Interface()
}

// refusal stands where there is no transaction: it answers every statement with why.
type refusal struct {
	*sqlx.DB // closed; answers what can't carry an error of ours

	err error
}

func newRefusal(err error) refusal {
	db := sql.OpenDB(nowhere{err})
	_ = db.Close() // it has no connection
	return refusal{sqlx.NewDb(db, "mysql"), err}
}

func (r refusal) ExecContext(context.Context, string, ...any) (sql.Result, error) { return nil, r.err }

func (r refusal) QueryContext(context.Context, string, ...any) (*sql.Rows, error) { return nil, r.err }

func (r refusal) QueryxContext(context.Context, string, ...any) (*sqlx.Rows, error) {
	return nil, r.err
}

func (r refusal) PrepareContext(context.Context, string) (*sql.Stmt, error) { return nil, r.err }

func (r refusal) GetContext(context.Context, any, string, ...any) error { return r.err }

func (r refusal) SelectContext(context.Context, any, string, ...any) error { return r.err }

// nowhere connects to nothing.
type nowhere struct{ err error }

func (n nowhere) Connect(context.Context) (driver.Conn, error) { return nil, n.err }
func (n nowhere) Driver() driver.Driver                        { return nil }
