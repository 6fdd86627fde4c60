-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_blocks (
  owner TEXT    NOT NULL PRIMARY KEY,  -- whose tasks do not run, and who gets no new ones
  at    INTEGER NOT NULL,              -- Unix ms UTC: since when
  actor TEXT    NOT NULL DEFAULT ''    -- who has blocked the owner
) STRICT;
CREATE INDEX IF NOT EXISTS duetime_blocks_at ON duetime_blocks (at);
