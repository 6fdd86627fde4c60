-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_groups (
  name        VARCHAR(64)   NOT NULL COMMENT 'what services call it',
  follower_id BINARY(16)    NOT NULL COMMENT 'the id that the follower has, or will have',
  follower    MEDIUMTEXT    NOT NULL COMMENT 'JSON: the task that follows the last member',
  sealed      TINYINT       NOT NULL DEFAULT 0 COMMENT '1: no member is added any more',
  open_parts  INT           NOT NULL DEFAULT 1 COMMENT 'parts with open members, and 1 while it is not sealed; 0: it has ended',
  done        INT           NOT NULL DEFAULT 0 COMMENT 'members by their states when it ended; until then the parts have them',
  dead        INT           NOT NULL DEFAULT 0,
  cancelled   INT           NOT NULL DEFAULT 0,
  note        VARCHAR(255)  NOT NULL DEFAULT '' COMMENT 'why the follower was not scheduled',
  created_at  BIGINT        NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  ended_at    BIGINT        NULL DEFAULT NULL COMMENT 'when its last member ended; NULL until then',
  checked_at  BIGINT        NOT NULL DEFAULT 0 COMMENT 'when the daemon last compared it with its members'' rows',
  PRIMARY KEY (name),
  KEY duetime_groups_ended (ended_at, name)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'tasks whose last end schedules a follower';

CREATE TABLE IF NOT EXISTS duetime_group_parts (
  name       VARCHAR(64) NOT NULL COMMENT 'of the group',
  part       TINYINT     NOT NULL COMMENT 'each part has some of the counts, so that transactions need not wait for one row; the sums count',
  open       INT         NOT NULL DEFAULT 0 COMMENT 'members that are pending',
  done       INT         NOT NULL DEFAULT 0,
  dead       INT         NOT NULL DEFAULT 0,
  cancelled  INT         NOT NULL DEFAULT 0,
  updated_at BIGINT      NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  PRIMARY KEY (name, part)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'counts of the members of groups';

-- MySQL has no ADD COLUMN IF NOT EXISTS, and a process may die between a change of a table and its mark in the table of migrations.
SET @duetime = (SELECT IF(COUNT(*) > 0, 'DO 0',
  'ALTER TABLE duetime_tasks ADD COLUMN group_name VARCHAR(64) NULL DEFAULT NULL COMMENT ''the group that waits for its end; NULL for none'', ALGORITHM = INSTANT, LOCK = DEFAULT')
  FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'duetime_tasks' AND column_name = 'group_name');
PREPARE duetime FROM @duetime;
EXECUTE duetime;
DEALLOCATE PREPARE duetime;
