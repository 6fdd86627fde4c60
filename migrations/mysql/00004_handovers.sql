-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_handovers (
  queue   VARCHAR(64) NOT NULL COMMENT 'whose partition it is',
  part    INT         NOT NULL COMMENT 'number of the partition',
  holder  VARCHAR(36) NOT NULL COMMENT 'the run of a worker that has it, or had it last',
  left_at BIGINT      NOT NULL DEFAULT 0 COMMENT 'Unix ms UTC at which the holder left it with nothing running; 0 while it has it, and after a crash',
  PRIMARY KEY (queue, part)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'which partitions were left in good order: what is due there is not what ended a process';
