package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// product is what a server says it is.
type product struct{ name, version string }

const (
	mySQL   = "MySQL"
	mariaDB = "MariaDB"
	vitess  = "Vitess"
)

// otherProducts speak MySQL's protocol, and their row locks or transactions are not MySQL's. Each is known by a part of the
// variable version or version_comment, in small letters.
var otherProducts = []struct{ part, name string }{
	{"tidb", "TiDB"},
	{"oceanbase", "OceanBase"},
	{"singlestore", "SingleStore"},
	{"memsql", "SingleStore"},
	{"polardb-x", "PolarDB-X"},
	{"tddl", "PolarDB-X"},
}

const productText = "SELECT @@version, @@version_comment LIMIT 1" // even if sql_select_limit is 0

// productOf tells a server by its answer to productText. A server of no known name counts as MySQL.
func productOf(version, comment string) product {
	number, _, _ := strings.Cut(version, "-")
	have := strings.ToLower(version + " " + comment)
	for _, p := range otherProducts {
		if strings.Contains(have, p.part) {
			return product{p.name, version}
		}
	}
	switch own := strings.Fields(comment); {
	case strings.Contains(have, "mariadb"):
		return product{mariaDB, number}
	case strings.Contains(have, "vitess") && len(own) > 1:
		return product{vitess, own[1]} // of "Version: 24.0.4 (…)"; the variable version is that of the MySQL as which it speaks
	case strings.Contains(have, "vitess"):
		return product{vitess, number}
	}
	return product{mySQL, number}
}

// String returns the name and the version.
func (p product) String() string { return p.name + " " + p.version }

// askProduct asks at a connection that is not set up yet.
func askProduct(ctx context.Context, c driver.Conn) (product, error) {
	q, ok := c.(driver.QueryerContext)
	if !ok {
		return product{}, driver.ErrSkip
	}
	rows, err := q.QueryContext(ctx, productText, nil)
	if err != nil {
		return product{}, err
	}
	row := make([]driver.Value, 2)
	if err := errors.Join(rows.Next(row), rows.Close()); err != nil {
		return product{}, err
	}
	return productOf(fmt.Sprintf("%s", row[0]), fmt.Sprintf("%s", row[1])), nil
}

// Product returns the name and the version of the server, such as "MySQL 9.7.4".
func (s *Store) Product(ctx context.Context) (string, error) {
	p, err := s.askProduct(ctx)
	return p.String(), err
}

func (s *Store) askProduct(ctx context.Context) (product, error) {
	if s.dialect == SQLite {
		return product{name: "SQLite"}, nil
	}
	var version, comment string
	if err := s.db.QueryRowxContext(ctx, productText).Scan(&version, &comment); err != nil {
		return product{}, fmt.Errorf("ask the server for its version: %w", err)
	}
	return productOf(version, comment), nil
}

// checkProduct returns a *SettingError for a server that is known to be none of MySQL, MariaDB and an unsharded Vitess.
func (s *Store) checkProduct(ctx context.Context, p product) error {
	switch p.name {
	case mySQL, mariaDB:
		return nil
	case vitess:
		return s.checkUnsharded(ctx)
	}
	return &SettingError{"version", p.String(), "MySQL's, MariaDB's or Vitess': the row locks of " + p.name +
		" are not theirs, and an effect could come twice (promise P2)"}
}

// checkUnsharded returns a *SettingError for a sharded keyspace of Vitess.
func (s *Store) checkUnsharded(ctx context.Context) error {
	var keyspace, sharded, foreignKeys, comment string
	var is bool
	err := forEach(ctx, s.db, "SHOW VSCHEMA KEYSPACES", nil, []any{&keyspace, &sharded, &foreignKeys, &comment}, func() {
		is = is || keyspace == s.keyspace() && sharded == "true"
	})
	if err != nil {
		return fmt.Errorf("ask whether the keyspace is sharded: %w", err)
	}
	if is {
		return &SettingError{"keyspace " + s.keyspace(), "sharded", "unsharded: a COMMIT on several shards may take effect on some of them only, " +
			"and an effect could be lost or come twice (promise P2)"}
	}
	return nil
}

// keyspace returns the keyspace of a DSN for Vitess, which may also name a shard and a kind of tablet: game:0@primary.
func (s *Store) keyspace() string {
	if end := strings.IndexAny(s.schema, ":@"); end >= 0 {
		return s.schema[:end]
	}
	return s.schema
}

// CheckLocks returns a *SettingError if the server, or a proxy before it, does not heed SKIP LOCKED: two sessions ask for the
// layout's row. It checks nothing before the first migration, without the right to lock that row,
// on SQLite, and on a handle that this package did not open.
func (s *Store) CheckLocks(ctx context.Context) error {
	if s.openPatient == nil {
		return nil
	}
	db, done, err := s.patientFor(migrationWait) // the own handle may have one connection only
	if err != nil {
		return err
	}
	defer done()
	holder, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = holder.Rollback() }()
	var row int
	err = holder.QueryRowxContext(ctx, "SELECT 1"+fromLayout+s.dialect.ForUpdate()).Scan(&row)
	if errors.Is(err, sql.ErrNoRows) || Classify(err) == NoTable || serverNumber(err) == noTableRight {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock the layout: %w", err)
	}
	other, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = other.Rollback() }()
	err = other.QueryRowxContext(ctx, "SELECT 1"+fromLayout+s.dialect.skipLocked()).Scan(&row)
	switch {
	case err == nil:
		return &SettingError{"SKIP LOCKED", "without effect", "heeded: two workers got the same row, and an effect could come twice (promise P2)"}
	case serverNumber(err) == lockWaitTimeout:
		return &SettingError{"SKIP LOCKED", "without effect", "heeded: a worker waited for another's row, and tasks would be late (promise P5)"}
	case errors.Is(err, sql.ErrNoRows):
		return nil
	}
	return fmt.Errorf("skip a locked row: %w", err)
}
