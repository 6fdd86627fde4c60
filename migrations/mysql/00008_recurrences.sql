-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_recurrences (
  id           BINARY(16)   NOT NULL COMMENT 'UUIDv7; part of the keys of its tasks: r<id>:<tick>',
  owner        VARCHAR(64)  NOT NULL COMMENT 'owner of its tasks',
  name         VARCHAR(64)  NOT NULL COMMENT 'unique for its owner',
  state        TINYINT      NOT NULL DEFAULT 0 COMMENT '0 active, 1 paused, 2 stopped, 3 over',
  note         VARCHAR(255) NOT NULL DEFAULT '' COMMENT 'why it is paused',
  timetable    VARCHAR(255) NOT NULL COMMENT 'every <duration> from <time>, or cron <zone> <expression>',
  policy       VARCHAR(512) NOT NULL DEFAULT '{}' COMMENT 'JSON: catch_up, window, overlap, jitter, start, end, count; defaults are left out',
  kind         VARCHAR(64)  NOT NULL COMMENT 'of its tasks',
  queue        VARCHAR(64)  NOT NULL COMMENT 'of its tasks',
  subject      VARCHAR(63)  NOT NULL DEFAULT '' COMMENT 'of its tasks',
  max_attempts INT          NOT NULL COMMENT 'of its tasks',
  payload      TEXT         NOT NULL COMMENT 'of its tasks: JSON, at most 4 KiB',
  passed       BIGINT       NOT NULL COMMENT 'Unix ms UTC: ticks up to this moment were made or skipped',
  newest       BINARY(16)   NULL DEFAULT NULL COMMENT 'the task of the latest tick that was made; NULL for none',
  due_at       BIGINT       NOT NULL DEFAULT 0 COMMENT 'of that task, when it was made; 0 for none',
  began_at     BIGINT       NOT NULL DEFAULT 0 COMMENT 'Unix ms UTC: first attempt of that task, if it goes on; 0 for none',
  made         BIGINT       NOT NULL DEFAULT 0 COMMENT 'tasks',
  skipped      BIGINT       NOT NULL DEFAULT 0 COMMENT 'ticks that got no task',
  caught_up    BIGINT       NOT NULL DEFAULT 0 COMMENT 'ticks that had passed when their tasks were made',
  created_at   BIGINT       NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  updated_at   BIGINT       NOT NULL COMMENT 'Unix ms UTC of the last transition',
  PRIMARY KEY (id),
  UNIQUE KEY duetime_recurrences_name (owner, name),
  KEY duetime_recurrences_due (state, due_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'one row per recurrence: what makes tasks by a timetable';
