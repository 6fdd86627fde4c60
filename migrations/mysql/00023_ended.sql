-- +goose Up
-- A task that is done or cancelled leaves duetime_tasks some minutes after its end, unless its key has to hold: so all that fires tasks
-- reads a small table, however long ended ones are kept. The rows are in the order of their ends, by which lists read and the purge deletes.
CREATE TABLE IF NOT EXISTS duetime_ended (
  id           BINARY(16)        NOT NULL COMMENT 'the columns are those of duetime_tasks, and mean the same',
  kind         VARCHAR(64)       NOT NULL,
  owner        VARCHAR(64)       NOT NULL,
  subject      VARCHAR(63)       NOT NULL DEFAULT '',
  queue        VARCHAR(64)       NOT NULL DEFAULT 'default',
  shard        SMALLINT UNSIGNED NOT NULL DEFAULT 0,
  state        TINYINT           NOT NULL COMMENT '1 done, 2 cancelled',
  due_at       BIGINT            NOT NULL,
  run_at       BIGINT            NOT NULL,
  version      BIGINT            NOT NULL,
  attempt      INT               NOT NULL,
  max_attempts INT               NOT NULL,
  dedup_key    VARCHAR(160)      NULL DEFAULT NULL COMMENT 'always NULL',
  payload      TEXT              NOT NULL,
  last_error   VARCHAR(1024)     NOT NULL DEFAULT '',
  traceparent  VARCHAR(55)       NOT NULL DEFAULT '',
  order_key    VARCHAR(160)      NULL DEFAULT NULL,
  group_name   VARCHAR(64)       NULL DEFAULT NULL,
  created_at   BIGINT            NOT NULL,
  updated_at   BIGINT            NOT NULL,
  finished_at  BIGINT            NOT NULL,
  tried_at     BIGINT            NULL DEFAULT NULL,
  ran          BIGINT            NOT NULL DEFAULT 0,
  PRIMARY KEY (state, finished_at, id),
  UNIQUE KEY duetime_ended_id (id),
  KEY duetime_ended_owner (owner, finished_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'tasks that ended a while ago, until their retention is over';
