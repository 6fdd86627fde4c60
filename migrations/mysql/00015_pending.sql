-- +goose Up
-- Services join this view in their own queries, so that they need no copy of a due time. With MERGE a condition on its columns uses the
-- indexes of duetime_tasks. With INVOKER nobody reads more by it than by the table, and it needs no user who made it.
-- The servers have no CREATE VIEW IF NOT EXISTS in common, and OR REPLACE would want the right to DROP.
SET @view = IF(
  (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_pending') = 0,
  'CREATE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW duetime_pending AS
  SELECT id,
    LOWER(CONCAT_WS(''-'', HEX(LEFT(id, 4)), HEX(SUBSTR(id, 5, 2)), HEX(SUBSTR(id, 7, 2)), HEX(SUBSTR(id, 9, 2)), HEX(RIGHT(id, 6)))) AS id_text,
    kind, owner, subject, queue,
    CAST(TIMESTAMP''1970-01-01 00:00:00'' + INTERVAL due_at * 1000 MICROSECOND AS DATETIME(3)) AS due_at,
    CAST(TIMESTAMP''1970-01-01 00:00:00'' + INTERVAL run_at * 1000 MICROSECOND AS DATETIME(3)) AS run_at,
    due_at AS due_ms, run_at AS run_ms, version
  FROM duetime_tasks WHERE state = 0',
  'DO 0');
PREPARE make_view FROM @view;
EXECUTE make_view;
DEALLOCATE PREPARE make_view;
