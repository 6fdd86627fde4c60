-- +goose Up
-- The servers have no ADD COLUMN IF NOT EXISTS in common, and a migrate that was killed after the change runs this again.
SET @change = IF(
  (SELECT COUNT(*) FROM information_schema.COLUMNS
   WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_layout' AND COLUMN_NAME = 'horizon_ms') = 0,
  'ALTER TABLE duetime_layout
     ADD COLUMN horizon_ms BIGINT NOT NULL DEFAULT 0 COMMENT ''tasks due later than this are kept out of Redis; 0: none is'',
     ADD COLUMN partial TINYINT NOT NULL DEFAULT 0 COMMENT ''1: Redis may lack tasks, so that no list is read there'',
     ALGORITHM = INPLACE, LOCK = NONE',
  'DO 0');
PREPARE change_layout FROM @change;
EXECUTE change_layout;
DEALLOCATE PREPARE change_layout;
