-- +goose Up
-- What operators did stands among many lines of services and workers: this index has the lines of each actor together, by time.
-- The servers have no ADD INDEX IF NOT EXISTS in common, and a migrate that was killed after the change runs this again.
SET @change = IF(
  (SELECT COUNT(*) FROM information_schema.STATISTICS
   WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_history' AND INDEX_NAME = 'duetime_history_actor') = 0,
  'ALTER TABLE duetime_history ADD INDEX duetime_history_actor (actor, at), ALGORITHM = INPLACE, LOCK = NONE',
  'DO 0');
PREPARE change_history FROM @change;
EXECUTE change_history;
DEALLOCATE PREPARE change_history;
