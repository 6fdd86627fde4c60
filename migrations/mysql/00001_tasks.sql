-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_tasks (
  id           BINARY(16)        NOT NULL COMMENT 'UUIDv7 made by the client before the insert',
  kind         VARCHAR(64)       NOT NULL COMMENT 'which handler runs it',
  owner        VARCHAR(64)       NOT NULL COMMENT 'whom it belongs to: the player; decides shard and partition',
  subject      VARCHAR(32)       NOT NULL DEFAULT '' COMMENT 'what it is about: the pet',
  queue        VARCHAR(64)       NOT NULL DEFAULT 'default' COMMENT 'which topic and consumer group carry its hints',
  shard        SMALLINT UNSIGNED NOT NULL DEFAULT 0 COMMENT 'where it is indexed: CRC32(owner) mod duetime_layout.shards',
  state        TINYINT           NOT NULL DEFAULT 0 COMMENT '0 pending, 1 done, 2 cancelled, 3 dead',
  due_at       BIGINT            NOT NULL COMMENT 'the promise, Unix ms UTC; only schedule and reschedule change it',
  run_at       BIGINT            NOT NULL COMMENT 'the next try, Unix ms UTC; due_at until an attempt fails',
  version      BIGINT            NOT NULL DEFAULT 1 COMMENT '1 at the insert, +1 at each transition',
  attempt      INT               NOT NULL DEFAULT 0 COMMENT 'attempts charged so far',
  max_attempts INT               NOT NULL DEFAULT 25 COMMENT 'dead when attempt reaches it',
  dedup_key    VARCHAR(129)      NULL DEFAULT NULL COMMENT 'k<key> until the task ends, o<key> for the row''s life, NULL for none',
  payload      TEXT              NOT NULL COMMENT 'JSON, at most 4 KiB',
  last_error   VARCHAR(1024)     NOT NULL DEFAULT '' COMMENT 'text of the last failure',
  created_at   BIGINT            NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  updated_at   BIGINT            NOT NULL COMMENT 'Unix ms UTC of the last transition',
  finished_at  BIGINT            NULL DEFAULT NULL COMMENT 'Unix ms UTC of the end; NULL while pending',
  PRIMARY KEY (id),
  UNIQUE KEY duetime_tasks_dedup (owner, kind, dedup_key),
  KEY duetime_tasks_due (state, run_at, id),
  KEY duetime_tasks_owner (owner, state, run_at),
  KEY duetime_tasks_updated (updated_at, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'one row per task: the truth of the pipeline';

CREATE TABLE IF NOT EXISTS duetime_epochs (
  name  VARCHAR(64) NOT NULL COMMENT 'what is led: event, daemon',
  epoch BIGINT      NOT NULL COMMENT 'of the newest term; each election takes the next',
  PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'fencing numbers of the elected processes';

CREATE TABLE IF NOT EXISTS duetime_layout (
  only_row    TINYINT           NOT NULL DEFAULT 1 COMMENT 'always 1: the table has one row',
  namespace   VARCHAR(64)       NOT NULL COMMENT 'prefix of keys, topics, groups and znodes of this schema',
  shards      SMALLINT UNSIGNED NOT NULL COMMENT 'new rows go to CRC32(owner) mod this',
  shards_ever SMALLINT UNSIGNED NOT NULL COMMENT 'the most there have ever been: older rows are indexed there still',
  PRIMARY KEY (only_row)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'what every process of this schema must agree on';
