-- +goose Up
-- Tasks that take effect in order have an order key, and while they are pending a row in duetime_orders. The index of keys is there, so
-- that all other tasks pay nothing for it.
CREATE TABLE IF NOT EXISTS duetime_orders (
  task_id   BINARY(16)   NOT NULL COMMENT 'a pending task that takes effect in order',
  order_key VARCHAR(160) NOT NULL COMMENT 'as in its row',
  due_at    BIGINT       NOT NULL COMMENT 'as in its row: the tasks of a key take effect by (due_at, task_id)',
  PRIMARY KEY (task_id),
  KEY duetime_orders_key (order_key, due_at, task_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'pending tasks that take effect in order';

-- The servers have no ADD COLUMN IF NOT EXISTS in common, and a migrate that was killed after the change runs this again.
SET @change = IF(
  (SELECT COUNT(*) FROM information_schema.COLUMNS
   WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_tasks' AND COLUMN_NAME = 'order_key') = 0,
  'ALTER TABLE duetime_tasks ADD COLUMN order_key VARCHAR(160) NULL DEFAULT NULL COMMENT ''k<key>, or s<owner>, 0x1f and the subject: tasks with one key take effect in order; NULL for none'', ALGORITHM = INSTANT, LOCK = DEFAULT',
  'DO 0');
PREPARE change_tasks FROM @change;
EXECUTE change_tasks;
DEALLOCATE PREPARE change_tasks;
