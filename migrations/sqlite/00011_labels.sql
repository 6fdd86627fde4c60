-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_labels (
  name    TEXT NOT NULL, -- a-z 0-9 . _ -, the first a letter
  value   TEXT NOT NULL, -- 1 to 64 bytes
  task_id BLOB NOT NULL, -- the task that has the label; its labels never change, and are deleted with it
  PRIMARY KEY (name, value, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS duetime_labels_task ON duetime_labels (task_id);
