package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNoProcessRight says that the user may not see other users' transactions.
var ErrNoProcessRight = errors.New("the right PROCESS is missing")

// OldestTransaction returns for how long the oldest transaction of the whole server has been open, zero for none. It returns
// ErrNoProcessRight if the user has no right PROCESS, and 0 on SQLite.
func (s *Store) OldestTransaction(ctx context.Context) (time.Duration, error) {
	if s.dialect == SQLite {
		return 0, nil
	}
	var age int64 // trx_started is in the server's zone, and a session may have another one
	err := s.db.GetContext(ctx, &age, "SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))), 0)"+
		" FROM information_schema.innodb_trx")
	if Classify(err) == Refused {
		return 0, fmt.Errorf("read the server's transactions: %w: %w", ErrNoProcessRight, err)
	}
	if err != nil {
		return 0, fmt.Errorf("read the server's transactions: %w", err)
	}
	return time.Duration(max(age, 0)) * time.Second, nil
}
