-- +goose Up
-- Tasks that take effect in order have an order key, and while they are pending a row in duetime_orders. The index of keys is there, so
-- that all other tasks pay nothing for it. Package store adds the column order_key to duetime_tasks.
CREATE TABLE IF NOT EXISTS duetime_orders (
  task_id   BLOB    NOT NULL PRIMARY KEY,  -- a pending task that takes effect in order
  order_key TEXT    NOT NULL,              -- as in its row
  due_at    INTEGER NOT NULL               -- as in its row: the tasks of a key take effect by (due_at, task_id)
) STRICT;
CREATE INDEX IF NOT EXISTS duetime_orders_key ON duetime_orders (order_key, due_at, task_id);
