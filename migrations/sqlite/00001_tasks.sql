-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_tasks (
  id           BLOB    NOT NULL PRIMARY KEY,        -- UUIDv7 made by the client before the insert
  kind         TEXT    NOT NULL,                    -- which handler runs it
  owner        TEXT    NOT NULL,                    -- whom it belongs to: the player; decides shard and partition
  subject      TEXT    NOT NULL DEFAULT '',         -- what it is about: the pet
  queue        TEXT    NOT NULL DEFAULT 'default',  -- which topic and consumer group carry its hints
  shard        INTEGER NOT NULL DEFAULT 0,          -- where it is indexed: CRC32 (IEEE) of owner mod duetime_layout.shards
  state        INTEGER NOT NULL DEFAULT 0,          -- 0 pending, 1 done, 2 cancelled, 3 dead
  due_at       INTEGER NOT NULL,                    -- the promise, Unix ms UTC; only schedule and reschedule change it
  run_at       INTEGER NOT NULL,                    -- the next try, Unix ms UTC; due_at until an attempt fails
  version      INTEGER NOT NULL DEFAULT 1,          -- 1 at the insert, +1 at each transition
  attempt      INTEGER NOT NULL DEFAULT 0,          -- attempts charged so far
  max_attempts INTEGER NOT NULL DEFAULT 25,         -- dead when attempt reaches it
  dedup_key    TEXT    NULL DEFAULT NULL,           -- k<key> until the task ends, o<key> for the row's life, NULL for none
  payload      TEXT    NOT NULL,                    -- JSON, at most 4 KiB
  last_error   TEXT    NOT NULL DEFAULT '',         -- text of the last failure
  created_at   INTEGER NOT NULL,                    -- Unix ms UTC of the database's clock
  updated_at   INTEGER NOT NULL,                    -- Unix ms UTC of the last transition
  finished_at  INTEGER NULL DEFAULT NULL            -- Unix ms UTC of the end; NULL while pending
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS duetime_tasks_dedup ON duetime_tasks (owner, kind, dedup_key);
CREATE INDEX IF NOT EXISTS duetime_tasks_due ON duetime_tasks (state, run_at, id);
CREATE INDEX IF NOT EXISTS duetime_tasks_owner ON duetime_tasks (owner, state, run_at);
CREATE INDEX IF NOT EXISTS duetime_tasks_updated ON duetime_tasks (updated_at, id);

CREATE TABLE IF NOT EXISTS duetime_epochs (
  name  TEXT    NOT NULL PRIMARY KEY,               -- what is led: event, daemon
  epoch INTEGER NOT NULL                            -- of the newest term; each election takes the next
) STRICT;

CREATE TABLE IF NOT EXISTS duetime_layout (
  only_row    INTEGER NOT NULL DEFAULT 1 PRIMARY KEY, -- always 1: the table has one row
  namespace   TEXT    NOT NULL,                       -- prefix of keys, topics, groups and znodes of this schema
  shards      INTEGER NOT NULL,                       -- new rows go to CRC32 (IEEE) of owner mod this
  shards_ever INTEGER NOT NULL                        -- the most there have ever been: older rows are indexed there still
) STRICT;
