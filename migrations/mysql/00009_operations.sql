-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_operations (
  id          BINARY(16)   NOT NULL COMMENT 'UUIDv7',
  verb        VARCHAR(16)  NOT NULL COMMENT 'shift, cancel, requeue, retry or discard',
  by_ms       BIGINT       NOT NULL DEFAULT 0 COMMENT 'of shift: how far due times move',
  to_queue    VARCHAR(64)  NOT NULL DEFAULT '' COMMENT 'of requeue',
  filter      TEXT         NOT NULL COMMENT 'JSON: kind, owner, owner_prefix, queue, subject, due_after, due_before, all',
  rate        INT          NOT NULL DEFAULT 0 COMMENT 'tasks changed a second at most; 0: no limit of its own',
  matched     BIGINT       NOT NULL DEFAULT 0 COMMENT 'tasks that a preview has counted; 0: none was made',
  state       TINYINT      NOT NULL DEFAULT 0 COMMENT '0 running, 1 paused, 2 cancelled, 3 done',
  cursor_id   BINARY(16)   NOT NULL COMMENT 'tasks up to this id were looked at; zero at the beginning',
  looked      BIGINT       NOT NULL DEFAULT 0 COMMENT 'tasks that matched a moment before they were locked',
  changed     BIGINT       NOT NULL DEFAULT 0 COMMENT 'of these: tasks that were changed',
  ended       BIGINT       NOT NULL DEFAULT 0 COMMENT 'of these: ended meanwhile, or dead no more',
  left_alone  BIGINT       NOT NULL DEFAULT 0 COMMENT 'of these: locked by others, a key that is taken, a time out of bounds',
  actor       VARCHAR(128) NOT NULL COMMENT 'who made it: user@host of an operator, or service',
  error       VARCHAR(1024) NOT NULL DEFAULT '' COMMENT 'why the daemon has paused it',
  created_at  BIGINT       NOT NULL COMMENT 'Unix ms UTC of the database''s clock; tasks that were made later are not changed',
  updated_at  BIGINT       NOT NULL COMMENT 'Unix ms UTC of the last transition, or page',
  finished_at BIGINT       NOT NULL DEFAULT 0 COMMENT 'Unix ms UTC of the end; 0 before',
  PRIMARY KEY (id),
  KEY duetime_operations_state (state, created_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'one row per operation: a change of many tasks, which the daemon carries out';
