-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_limits (
  queue       TEXT    NOT NULL PRIMARY KEY,   -- a queue that has, or had, a limit
  rate        TEXT    NULL DEFAULT NULL,      -- an operator's rate, such as 200/s; empty: none; NULL: as configured
  concurrency INTEGER NULL DEFAULT NULL,      -- an operator's bound of transactions at once; 0: none; NULL: as configured
  version     INTEGER NOT NULL DEFAULT 1,     -- raised by each change: a worker changes what it has read
  leased_us   INTEGER NOT NULL DEFAULT 0,     -- Unix us UTC: up to this moment the slots of the rate are leased to workers
  owed_us     INTEGER NOT NULL DEFAULT 0,     -- us: the time of slots that nobody has leased, and that are still to be made good
  holders     TEXT    NOT NULL,               -- JSON: the workers that have permits, or want some
  limited_at  INTEGER NOT NULL DEFAULT 0      -- Unix ms UTC: when a worker last told that due tasks wait for the limit
) STRICT;
