-- +goose Up
-- A task that is done or cancelled leaves duetime_tasks some minutes after its end, unless its key has to hold.
CREATE TABLE IF NOT EXISTS duetime_ended (
  id           BLOB    NOT NULL,              -- the columns are those of duetime_tasks, and mean the same
  kind         TEXT    NOT NULL,
  owner        TEXT    NOT NULL,
  subject      TEXT    NOT NULL DEFAULT '',
  queue        TEXT    NOT NULL DEFAULT 'default',
  shard        INTEGER NOT NULL DEFAULT 0,
  state        INTEGER NOT NULL,              -- 1 done, 2 cancelled
  due_at       INTEGER NOT NULL,
  run_at       INTEGER NOT NULL,
  version      INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  dedup_key    TEXT    NULL DEFAULT NULL,     -- always NULL
  payload      TEXT    NOT NULL,
  last_error   TEXT    NOT NULL DEFAULT '',
  traceparent  TEXT    NOT NULL DEFAULT '',
  order_key    TEXT    NULL DEFAULT NULL,
  group_name   TEXT    NULL DEFAULT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  finished_at  INTEGER NOT NULL,
  tried_at     INTEGER NULL DEFAULT NULL,
  ran          INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (state, finished_at, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS duetime_ended_id ON duetime_ended (id);
CREATE INDEX IF NOT EXISTS duetime_ended_owner ON duetime_ended (owner, finished_at);
