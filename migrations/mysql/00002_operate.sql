-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_requests (
  name    VARCHAR(80) NOT NULL COMMENT 'pause:<queue> while it stands; resign:<what is led>',
  epoch   BIGINT      NOT NULL DEFAULT 0 COMMENT 'of resign: terms up to this one end',
  made_at BIGINT      NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'what operators ask of the processes, which look each second';

CREATE TABLE IF NOT EXISTS duetime_history (
  seq    BIGINT        NOT NULL AUTO_INCREMENT,
  at     BIGINT        NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  task   BINARY(16)    NULL DEFAULT NULL COMMENT 'whose life it belongs to; NULL for what concerns a queue, a shard, a leader',
  event  VARCHAR(32)   NOT NULL COMMENT 'moved, failed, snoozed, cancelled, skipped, dead, retried, discarded, paused, resumed, resign, rebuild',
  actor  VARCHAR(128)  NOT NULL DEFAULT '' COMMENT 'service, worker, or user@host of an operator',
  detail VARCHAR(1024) NOT NULL DEFAULT '' COMMENT 'by how much, which error, which queue',
  PRIMARY KEY (seq),
  KEY duetime_history_task (task, seq),
  KEY duetime_history_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'append-only: what became of tasks beyond a plain firing, and who asked for what';

-- MySQL has no ADD COLUMN IF NOT EXISTS, and a process may die between a change of a table and its mark in the table of migrations.
SET @duetime = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE duetime_tasks ADD COLUMN traceparent VARCHAR(55) NOT NULL DEFAULT '''' COMMENT ''W3C trace context of the call that scheduled it; empty without tracing'', ALGORITHM = INSTANT, LOCK = DEFAULT')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'duetime_tasks' AND column_name = 'traceparent');
PREPARE duetime FROM @duetime;
EXECUTE duetime;
DEALLOCATE PREPARE duetime;

ALTER TABLE duetime_tasks MODIFY dedup_key VARCHAR(160) NULL DEFAULT NULL
  COMMENT 'k<key> until the task ends, o<key> for the row''s life, d<id><key> of a dead one, NULL for none', ALGORITHM = INPLACE, LOCK = NONE;
