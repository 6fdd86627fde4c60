-- +goose Up
-- MySQL has no ADD COLUMN IF NOT EXISTS, and a process may die between a change of a table and its mark in the table of migrations.
SET @duetime = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE duetime_limits ADD COLUMN owner_rate VARCHAR(32) NULL DEFAULT NULL COMMENT ''an operator''''s rate for each owner, such as 5/s; empty: none; NULL: as configured'', ALGORITHM = INSTANT, LOCK = DEFAULT')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'duetime_limits' AND column_name = 'owner_rate');
PREPARE duetime FROM @duetime;
EXECUTE duetime;
DEALLOCATE PREPARE duetime;
