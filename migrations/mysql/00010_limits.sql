-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_limits (
  queue       VARCHAR(64) NOT NULL COMMENT 'a queue that has, or had, a limit',
  rate        VARCHAR(32) NULL DEFAULT NULL COMMENT 'an operator''s rate, such as 200/s; empty: none; NULL: as configured',
  concurrency INT         NULL DEFAULT NULL COMMENT 'an operator''s bound of transactions at once; 0: none; NULL: as configured',
  version     BIGINT      NOT NULL DEFAULT 1 COMMENT 'raised by each change: a worker changes what it has read',
  leased_us   BIGINT      NOT NULL DEFAULT 0 COMMENT 'Unix us UTC: up to this moment the slots of the rate are leased to workers',
  owed_us     BIGINT      NOT NULL DEFAULT 0 COMMENT 'us: the time of slots that nobody has leased, and that are still to be made good',
  holders     TEXT        NOT NULL COMMENT 'JSON: the workers that have permits, or want some',
  limited_at  BIGINT      NOT NULL DEFAULT 0 COMMENT 'Unix ms UTC: when a worker last told that due tasks wait for the limit',
  PRIMARY KEY (queue)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'limits of queues, shared by all their workers';
