-- +goose Up
-- The servers have no ADD COLUMN IF NOT EXISTS in common, and a migrate that was killed after the change runs this again.
SET @change = IF(
  (SELECT COUNT(*) FROM information_schema.COLUMNS
   WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_layout' AND COLUMN_NAME = 'deployment') = 0,
  'ALTER TABLE duetime_layout ADD COLUMN deployment VARCHAR(36) NOT NULL DEFAULT '''' COMMENT ''id of this schema, made by migrate: two schemas must not share a namespace'', ALGORITHM = INPLACE, LOCK = NONE',
  'DO 0');
PREPARE change_layout FROM @change;
EXECUTE change_layout;
DEALLOCATE PREPARE change_layout;
