package pet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// mysqlSchema can be run repeatedly. The journal has no unique key but its sequence, so that duplicate effects show.
var mysqlSchema = []string{
	`CREATE TABLE IF NOT EXISTS pets (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  owner VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  food INT NOT NULL,
  speedup_cards INT NOT NULL,
  autofeed_cards INT NOT NULL,
  autofeed_armed INT NOT NULL DEFAULT 0,
  meals_eaten BIGINT NOT NULL DEFAULT 0,
  experience BIGINT NOT NULL DEFAULT 0,
  meal_task_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'task of the latest meal; it is eaten while that task is pending',
  meal_source VARCHAR(4) CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'hand, auto or time',
  KEY pets_owner (owner, id)
) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS pet_journal (
  seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  pet_id BIGINT NOT NULL,
  owner VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  event VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  task_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version BIGINT NOT NULL,
  due_at_ms BIGINT NOT NULL COMMENT 'the promise, Unix ms',
  at_ms BIGINT NOT NULL COMMENT 'clock of the database inside the transaction, Unix ms'
) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS pet_requests (
  id BINARY(32) NOT NULL PRIMARY KEY COMMENT 'hash of method, path and Idempotency-Key',
  body_hash BINARY(32) NOT NULL,
  status INT NOT NULL DEFAULT 0,
  body MEDIUMBLOB NULL,
  at_ms BIGINT NOT NULL,
  KEY pet_requests_at (at_ms)
) ENGINE=InnoDB`,
}

var sqliteSchema = []string{
	`CREATE TABLE IF NOT EXISTS pets (
  id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, name TEXT NOT NULL, food INTEGER NOT NULL,
  speedup_cards INTEGER NOT NULL, autofeed_cards INTEGER NOT NULL, autofeed_armed INTEGER NOT NULL DEFAULT 0,
  meals_eaten INTEGER NOT NULL DEFAULT 0, experience INTEGER NOT NULL DEFAULT 0, meal_task_id TEXT, meal_source TEXT)`,
	`CREATE INDEX IF NOT EXISTS pets_owner ON pets (owner, id)`,
	`CREATE TABLE IF NOT EXISTS pet_journal (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, pet_id INTEGER NOT NULL, owner TEXT NOT NULL, event TEXT NOT NULL,
  task_id TEXT NOT NULL, version INTEGER NOT NULL, due_at_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS pet_requests (
  id BLOB PRIMARY KEY, body_hash BLOB NOT NULL, status INTEGER NOT NULL DEFAULT 0, body BLOB, at_ms INTEGER NOT NULL)`,
	`CREATE INDEX IF NOT EXISTS pet_requests_at ON pet_requests (at_ms)`,
}

const schemaLock = "duetime.pet.schema"

// CreateTables creates the game's missing tables. On MySQL several processes may start at once: GET_LOCK lets one of them
// create.
func CreateTables(ctx context.Context, db *sqlx.DB) error {
	if db.DriverName() != "mysql" {
		return execAll(ctx, db, sqliteSchema)
	}
	conn, err := db.Connx(ctx)
	if err != nil {
		return fmt.Errorf("connect for the game's tables: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var got *int
	if err := conn.GetContext(ctx, &got, `SELECT GET_LOCK(?, 10)`, schemaLock); err != nil {
		return fmt.Errorf("lock the game's schema: %w", err)
	}
	if got == nil || *got != 1 {
		return errors.New("lock the game's schema: another process holds it for over 10 s")
	}
	defer func() {
		_ = conn.GetContext(context.WithoutCancel(ctx), new(sql.NullInt64), `SELECT RELEASE_LOCK(?)`, schemaLock)
	}()
	return execAll(ctx, conn, mysqlSchema)
}

func execAll(ctx context.Context, db sqlx.ExecerContext, statements []string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("create the game's tables: %w", err)
		}
	}
	return nil
}
