-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_requests (
  name    TEXT    NOT NULL PRIMARY KEY,  -- pause:<queue> while it stands; resign:<what is led>
  epoch   INTEGER NOT NULL DEFAULT 0,    -- of resign: terms up to this one end
  made_at INTEGER NOT NULL               -- Unix ms UTC of the database's clock
) STRICT;

CREATE TABLE IF NOT EXISTS duetime_history (
  seq    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,               -- Unix ms UTC of the database's clock
  task   BLOB    NULL DEFAULT NULL,      -- whose life it belongs to; NULL for what concerns a queue, a shard, a leader
  event  TEXT    NOT NULL,               -- moved, failed, snoozed, cancelled, skipped, dead, retried, discarded, paused, resumed, resign, rebuild
  actor  TEXT    NOT NULL DEFAULT '',    -- service, worker, or user@host of an operator
  detail TEXT    NOT NULL DEFAULT ''     -- by how much, which error, which queue
) STRICT;
CREATE INDEX IF NOT EXISTS duetime_history_task ON duetime_history (task, seq);
CREATE INDEX IF NOT EXISTS duetime_history_at ON duetime_history (at);

-- A second process that comes here at the same moment fails, tries again and finds all done.
ALTER TABLE duetime_tasks ADD COLUMN traceparent TEXT NOT NULL DEFAULT ''; -- W3C trace context of the call that scheduled it; empty without tracing
