-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_handovers (
  queue   TEXT    NOT NULL,              -- whose partition it is
  part    INTEGER NOT NULL,              -- number of the partition
  holder  TEXT    NOT NULL,              -- the run of a worker that has it, or had it last
  left_at INTEGER NOT NULL DEFAULT 0,    -- Unix ms UTC at which the holder left it with nothing running; 0 while it has it, and after a crash
  PRIMARY KEY (queue, part)
) STRICT;
