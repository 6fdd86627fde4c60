-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_witness_plays (
  id        BLOB    NOT NULL PRIMARY KEY,  -- of the play
  judged_at INTEGER NOT NULL,              -- Unix ms UTC
  faults    TEXT    NOT NULL               -- what the judge found, with commas
) STRICT;

CREATE TABLE IF NOT EXISTS duetime_witness_effects (
  seq    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  play   BLOB    NOT NULL,  -- the play of the task
  part   TEXT    NOT NULL,  -- what the task is in the play
  due_at INTEGER NOT NULL,  -- Unix ms UTC: the due time with which the task ran
  at     INTEGER NOT NULL,  -- Unix ms UTC, in the task's transaction
  data   INTEGER NOT NULL   -- with which the task ran
) STRICT;
