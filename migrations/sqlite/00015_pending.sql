-- +goose Up
-- Services join this view in their own queries, so that they need no copy of a due time.
CREATE VIEW IF NOT EXISTS duetime_pending AS
SELECT id,
  LOWER(HEX(SUBSTR(id, 1, 4)) || '-' || HEX(SUBSTR(id, 5, 2)) || '-' || HEX(SUBSTR(id, 7, 2)) || '-' || HEX(SUBSTR(id, 9, 2)) || '-' || HEX(SUBSTR(id, 11, 6))) AS id_text,
  kind, owner, subject, queue,
  STRFTIME('%Y-%m-%d %H:%M:%f', due_at / 1000.0, 'unixepoch') AS due_at,
  STRFTIME('%Y-%m-%d %H:%M:%f', run_at / 1000.0, 'unixepoch') AS run_at,
  due_at AS due_ms, run_at AS run_ms, version
FROM duetime_tasks WHERE state = 0;
