-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_operations (
  id          BLOB    NOT NULL PRIMARY KEY, -- UUIDv7
  verb        TEXT    NOT NULL,             -- shift, cancel, requeue, retry or discard
  by_ms       INTEGER NOT NULL DEFAULT 0,   -- of shift: how far due times move
  to_queue    TEXT    NOT NULL DEFAULT '',  -- of requeue
  filter      TEXT    NOT NULL,             -- JSON: kind, owner, owner_prefix, queue, subject, due_after, due_before, all
  rate        INTEGER NOT NULL DEFAULT 0,   -- tasks changed a second at most; 0: no limit of its own
  matched     INTEGER NOT NULL DEFAULT 0,   -- tasks that a preview has counted; 0: none was made
  state       INTEGER NOT NULL DEFAULT 0,   -- 0 running, 1 paused, 2 cancelled, 3 done
  cursor_id   BLOB    NOT NULL,             -- tasks up to this id were looked at; zero at the beginning
  looked      INTEGER NOT NULL DEFAULT 0,   -- tasks that matched a moment before they were locked
  changed     INTEGER NOT NULL DEFAULT 0,   -- of these: tasks that were changed
  ended       INTEGER NOT NULL DEFAULT 0,   -- of these: ended meanwhile, or dead no more
  left_alone  INTEGER NOT NULL DEFAULT 0,   -- of these: locked by others, a key that is taken, a time out of bounds
  actor       TEXT    NOT NULL,             -- who made it: user@host of an operator, or service
  error       TEXT    NOT NULL DEFAULT '',  -- why the daemon has paused it
  created_at  INTEGER NOT NULL,             -- Unix ms UTC of the database's clock; tasks that were made later are not changed
  updated_at  INTEGER NOT NULL,             -- Unix ms UTC of the last transition, or page
  finished_at INTEGER NOT NULL DEFAULT 0    -- Unix ms UTC of the end; 0 before
) STRICT;
CREATE INDEX IF NOT EXISTS duetime_operations_state ON duetime_operations (state, created_at);
