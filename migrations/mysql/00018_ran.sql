-- +goose Up
-- Eight bytes of each row, there from the insert on: a row that grows when its task ends is moved within its page.
-- MySQL has no ADD COLUMN IF NOT EXISTS, and a process may die between a change of a table and its mark in the table of migrations.
SET @duetime = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE duetime_tasks ADD COLUMN ran BIGINT NOT NULL DEFAULT 0 COMMENT ''which worker ran it, and how long each step took, packed, for people; 0: not known'', ALGORITHM = INSTANT, LOCK = DEFAULT')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'duetime_tasks' AND column_name = 'ran');
PREPARE duetime FROM @duetime;
EXECUTE duetime;
DEALLOCATE PREPARE duetime;
