-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_pauses (
  owner      VARCHAR(64)  NOT NULL COMMENT 'whose tasks are left alone; empty: of all owners',
  kind       VARCHAR(64)  NOT NULL COMMENT 'of which kind; empty: of all kinds',
  queue      VARCHAR(64)  NOT NULL COMMENT 'in which queue; empty: in all queues',
  until_at   BIGINT       NOT NULL COMMENT 'Unix ms UTC: the pause ends by itself then, and due tasks are put off to this moment; a longer one is a row of its own',
  made_at    BIGINT       NOT NULL COMMENT 'Unix ms UTC',
  resumed_at BIGINT       NOT NULL DEFAULT 0 COMMENT 'Unix ms UTC: since then it is over, and the daemon wakes what was put off; 0: it stands',
  actor      VARCHAR(128) NOT NULL DEFAULT '' COMMENT 'worker, or user@host of an operator',
  PRIMARY KEY (owner, kind, queue, until_at),
  KEY duetime_pauses_until (until_at),
  KEY duetime_pauses_resumed (resumed_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'pauses of owners and kinds, each until a time; workers read those that stand each second';

-- The servers have no ADD COLUMN IF NOT EXISTS in common, and a migrate that was killed after the change runs this again.
SET @duetime = IF(
  (SELECT COUNT(*) FROM information_schema.COLUMNS
   WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'duetime_requests' AND COLUMN_NAME = 'until_at') = 0,
  'ALTER TABLE duetime_requests
     ADD COLUMN until_at BIGINT NOT NULL DEFAULT 0 COMMENT ''of a pause, Unix ms UTC: it ends by itself then; 0: when the row is deleted'',
     ALGORITHM = INPLACE, LOCK = NONE',
  'DO 0');
PREPARE duetime FROM @duetime;
EXECUTE duetime;
DEALLOCATE PREPARE duetime;
