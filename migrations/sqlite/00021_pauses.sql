-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_pauses (
  owner      TEXT    NOT NULL,             -- whose tasks are left alone; empty: of all owners
  kind       TEXT    NOT NULL,             -- of which kind; empty: of all kinds
  queue      TEXT    NOT NULL,             -- in which queue; empty: in all queues
  until_at   INTEGER NOT NULL,             -- Unix ms UTC: the pause ends by itself then, and due tasks are put off to this moment; a longer one is a row of its own
  made_at    INTEGER NOT NULL,             -- Unix ms UTC
  resumed_at INTEGER NOT NULL DEFAULT 0,   -- Unix ms UTC: since then it is over, and what was put off is woken; 0: it stands
  actor      TEXT    NOT NULL DEFAULT '',  -- worker, or user@host of an operator
  PRIMARY KEY (owner, kind, queue, until_at)
) STRICT;
CREATE INDEX IF NOT EXISTS duetime_pauses_until ON duetime_pauses (until_at);
CREATE INDEX IF NOT EXISTS duetime_pauses_resumed ON duetime_pauses (resumed_at);
ALTER TABLE duetime_requests ADD COLUMN until_at INTEGER NOT NULL DEFAULT 0; -- of a pause, Unix ms UTC: it ends by itself then; 0: when the row is deleted
