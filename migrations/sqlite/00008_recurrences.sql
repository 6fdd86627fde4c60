-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_recurrences (
  id           BLOB    NOT NULL PRIMARY KEY, -- UUIDv7; part of the keys of its tasks: r<id>:<tick>
  owner        TEXT    NOT NULL,             -- owner of its tasks
  name         TEXT    NOT NULL,             -- unique for its owner
  state        INTEGER NOT NULL DEFAULT 0,   -- 0 active, 1 paused, 2 stopped, 3 over
  note         TEXT    NOT NULL DEFAULT '',  -- why it is paused
  timetable    TEXT    NOT NULL,             -- every <duration> from <time>, or cron <zone> <expression>
  policy       TEXT    NOT NULL DEFAULT '{}',-- JSON: catch_up, window, overlap, jitter, start, end, count; defaults are left out
  kind         TEXT    NOT NULL,             -- of its tasks
  queue        TEXT    NOT NULL,             -- of its tasks
  subject      TEXT    NOT NULL DEFAULT '',  -- of its tasks
  max_attempts INTEGER NOT NULL,             -- of its tasks
  payload      TEXT    NOT NULL,             -- of its tasks: JSON, at most 4 KiB
  passed       INTEGER NOT NULL,             -- Unix ms UTC: ticks up to this moment were made or skipped
  newest       BLOB    NULL DEFAULT NULL,    -- the task of the latest tick that was made; NULL for none
  due_at       INTEGER NOT NULL DEFAULT 0,   -- of that task, when it was made; 0 for none
  began_at     INTEGER NOT NULL DEFAULT 0,   -- Unix ms UTC: first attempt of that task, if it goes on; 0 for none
  made         INTEGER NOT NULL DEFAULT 0,   -- tasks
  skipped      INTEGER NOT NULL DEFAULT 0,   -- ticks that got no task
  caught_up    INTEGER NOT NULL DEFAULT 0,   -- ticks that had passed when their tasks were made
  created_at   INTEGER NOT NULL,             -- Unix ms UTC of the database's clock
  updated_at   INTEGER NOT NULL              -- Unix ms UTC of the last transition
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS duetime_recurrences_name ON duetime_recurrences (owner, name);
CREATE INDEX IF NOT EXISTS duetime_recurrences_due ON duetime_recurrences (state, due_at, id);
