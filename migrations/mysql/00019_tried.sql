-- +goose Up
-- MySQL has no ADD COLUMN IF NOT EXISTS, and a process may die between a change of a table and its mark in the table of migrations.
SET @duetime = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE duetime_tasks ADD COLUMN tried_at BIGINT NULL COMMENT ''when its handler was last called without ending the task; NULL: never'', ALGORITHM = INSTANT, LOCK = DEFAULT')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'duetime_tasks' AND column_name = 'tried_at');
PREPARE duetime FROM @duetime;
EXECUTE duetime;
DEALLOCATE PREPARE duetime;
