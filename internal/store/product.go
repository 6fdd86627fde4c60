package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// otherProducts speak MySQL's protocol, and their row locks or transactions are not MySQL's. Each is known by a part of the
// variable version or version_comment, in small letters.
var otherProducts = []struct{ part, name string }{
	{"tidb", "TiDB"},
	{"vitess", "Vitess"},
	{"oceanbase", "OceanBase"},
	{"singlestore", "SingleStore"},
	{"memsql", "SingleStore"},
	{"polardb-x", "PolarDB-X"},
	{"tddl", "PolarDB-X"},
}

// checkProduct returns a *SettingError for a server that is known to be neither MySQL nor MariaDB.
func checkProduct(version, comment string) error {
	have := strings.ToLower(version + " " + comment)
	for _, p := range otherProducts {
		if strings.Contains(have, p.part) {
			return &SettingError{"version", version, "MySQL's or MariaDB's: the row locks of " + p.name +
				" are not theirs, and an effect could come twice (promise P2)"}
		}
	}
	return nil
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
