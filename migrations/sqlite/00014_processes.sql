-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_processes (
  id         TEXT    NOT NULL PRIMARY KEY,  -- this run of the process
  role       TEXT    NOT NULL,              -- event, daemon, worker, api, console or embedded
  host       TEXT    NOT NULL,              -- the machine's name
  version    TEXT    NOT NULL,              -- what the program was built from
  started_at INTEGER NOT NULL,              -- Unix ms UTC: since when it runs
  seen_at    INTEGER NOT NULL,              -- Unix ms UTC: when it last wrote this row, which it does every few seconds
  detail     TEXT    NOT NULL               -- JSON: its pid, its queues and kinds, the epoch of the term that it leads
) STRICT;
