-- +goose Up
-- The servers have no ADD COLUMN IF NOT EXISTS in common, and a migrate that was killed after the change runs this again.
SET @change = IF(
  (SELECT COUNT(*) FROM information_schema.COLUMNS
   WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_layout' AND COLUMN_NAME = 'generation') = 0,
  'ALTER TABLE duetime_layout
     ADD COLUMN generation BIGINT NOT NULL DEFAULT 0 COMMENT ''raised by each change of shards'',
     ADD COLUMN shards_from SMALLINT UNSIGNED NOT NULL DEFAULT 0 COMMENT ''shards before the change that is going on; 0: none is'',
     ADD COLUMN paused TINYINT NOT NULL DEFAULT 0 COMMENT ''1: the change is paused'',
     ADD COLUMN moved BIGINT NOT NULL DEFAULT 0 COMMENT ''rows moved by the last change'',
     ADD COLUMN to_move BIGINT NOT NULL DEFAULT 0 COMMENT ''rows that the last change has to move, about'',
     ALGORITHM = INPLACE, LOCK = NONE',
  'DO 0');
PREPARE change_layout FROM @change;
EXECUTE change_layout;
DEALLOCATE PREPARE change_layout;
