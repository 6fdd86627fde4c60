package store_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/duetime/duetime/internal/store"
)

// proxied is a connection to MySQL through a proxy, which sees the statements that end a transaction and may answer them
// itself.
type proxied struct {
	driver.Conn
	meddle func(statement string) (instead string, err error)
}

// through makes a pool's connections proxied.
type through struct {
	driver.Connector
	meddle func(statement string) (string, error)
}

func (t through) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := t.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &proxied{c, t.meddle}, nil
}

// openProxied opens a store through a proxy.
func openProxied(t *testing.T, dsn string, o store.Options, meddle func(statement string) (string, error)) *store.Store {
	t.Helper()
	s, err := store.OpenThrough(dsn, o, func(c driver.Connector) driver.Connector { return through{c, meddle} })
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func (p *proxied) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := p.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return proxiedTx{tx, p}, err
}

func (p *proxied) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	query, err := p.meddle(query)
	if err != nil {
		return nil, err
	}
	return p.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (p *proxied) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return p.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (p *proxied) CheckNamedValue(nv *driver.NamedValue) error {
	return p.Conn.(driver.NamedValueChecker).CheckNamedValue(nv)
}

func (p *proxied) IsValid() bool { return p.Conn.(driver.Validator).IsValid() }

type proxiedTx struct {
	driver.Tx
	of *proxied
}

func (t proxiedTx) Commit() error {
	if _, err := t.of.meddle("COMMIT"); err != nil {
		return err
	}
	return t.Tx.Commit()
}

func (t proxiedTx) Rollback() error {
	if _, err := t.of.meddle("ROLLBACK"); err != nil {
		return err
	}
	return t.Tx.Rollback()
}

// ends reports whether the statement ends a transaction.
func ends(statement string) bool {
	return strings.HasPrefix(statement, "COMMIT") || strings.HasPrefix(statement, "ROLLBACK")
}

// A transaction whose end was refused, by a server or a proxy that kept the connection, is never committed later.
func TestRefusedEnd(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		number    uint16
		state     string
		ambiguous bool
	}{
		{1047, "08S01", true},  // a cluster's node that lost its cluster
		{9001, "HY000", true},  // a proxy's
		{1105, "HY000", true},  // another proxy's
		{1180, "HY000", true},  // got an error during COMMIT
		{1213, "40001", false}, // certification failed
		{1290, "HY000", false}, // read-only
		{3101, "40000", false}, // a plugin rolled back
	} {
		for _, end := range []string{"commit", "rollback"} {
			for _, chain := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d, chain %v", end, refusal.number, chain), func(t *testing.T) {
					t.Parallel()
					answer := &mysql.MySQLError{Number: refusal.number, SQLState: [5]byte([]byte(refusal.state)), Message: "refused"}
					checkRefusedEnd(t, end, chain, answer, refusal.ambiguous)
				})
			}
		}
	}
}

func checkRefusedEnd(t *testing.T, end string, chain bool, answer error, ambiguous bool) {
	t.Helper()
	other, dsn := openMySQLStore(t, store.Options{})
	pets(t, other)
	refuse := false
	s := openProxied(t, dsn, store.Options{MaxOpen: 1, Chain: chain}, func(statement string) (string, error) {
		if refuse && ends(statement) {
			refuse = false
			return "", answer
		}
		return statement, nil
	})
	inTx(t, s, func(context.Context, *sqlx.Tx) {}) // the next transaction may be chained to this one
	tx := begin(t, s)
	must(t, exec(tx, "UPDATE pets SET meals = 1000 WHERE id = 1"))
	refuse = true
	if end == "rollback" {
		if err := tx.Rollback(); !errors.Is(err, answer) {
			t.Errorf("ROLLBACK: %v, want %v", err, answer)
		}
	} else if err := tx.Commit(); !errors.Is(err, answer) || s.Ambiguous(err) != ambiguous {
		t.Errorf("COMMIT: %v and ambiguous %v, want %v and %v", err, s.Ambiguous(err), answer, ambiguous)
	}
	inTx(t, s, func(_ context.Context, tx *sqlx.Tx) {
		must(t, exec(tx, "UPDATE pets SET meals = meals + 1 WHERE id = 2"))
	})
	if n := meals(t, other); n != 1 {
		t.Errorf("%d meals, want the 1 of the transaction that was committed", n)
	}
}

// If a server ignores AND CHAIN, a batch must not run statement by statement, with a commit after each.
func TestChainThatIsIgnored(t *testing.T) {
	t.Parallel()
	other, dsn := openMySQLStore(t, store.Options{})
	pets(t, other)
	s := openProxied(t, dsn, store.Options{MaxOpen: 1, Chain: true}, func(statement string) (string, error) {
		return strings.Replace(statement, " AND CHAIN", "", 1), nil
	})
	for range 3 {
		inTx(t, s, func(_ context.Context, tx *sqlx.Tx) { must(t, exec(tx, "UPDATE pets SET meals = 1 WHERE id = 1")) })
		tx := begin(t, s)
		must(t, exec(tx, "UPDATE pets SET meals = 1000 WHERE id = 2"))
		must(t, tx.Rollback())
		if n := meals(t, other); n != 1 {
			t.Fatalf("%d meals, want the 1 that was committed", n)
		}
	}
}

// Each connection checks once whether transactions chain.
func TestChainIsAskedForOnce(t *testing.T) {
	t.Parallel()
	other, dsn := openMySQLStore(t, store.Options{})
	pets(t, other)
	var said []string
	s := openProxied(t, dsn, store.Options{MaxOpen: 1, Chain: true}, func(statement string) (string, error) {
		said = append(said, statement)
		return statement, nil
	})
	for range 10 {
		inTx(t, s, func(context.Context, *sqlx.Tx) {})
	}
	asked := slices.DeleteFunc(said, func(statement string) bool { return !strings.HasPrefix(statement, "RELEASE") })
	if len(asked) != 1 {
		t.Errorf("asked %d times, want once", len(asked))
	}
}
