-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_labels (
  name    VARCHAR(32) NOT NULL COMMENT 'a-z 0-9 . _ -, the first a letter',
  value   VARCHAR(64) NOT NULL COMMENT '1 to 64 bytes',
  task_id BINARY(16)  NOT NULL COMMENT 'the task that has the label; its labels never change, and are deleted with it',
  PRIMARY KEY (name, value, task_id),
  KEY duetime_labels_task (task_id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'one row per label of a task: names and values by which tasks are found';
