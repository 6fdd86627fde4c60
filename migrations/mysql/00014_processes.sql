-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_processes (
  id         VARCHAR(36)  NOT NULL COMMENT 'this run of the process',
  role       VARCHAR(16)  NOT NULL COMMENT 'event, daemon, worker, api, console or embedded',
  host       VARCHAR(255) NOT NULL COMMENT 'the machine''s name',
  version    VARCHAR(128) NOT NULL COMMENT 'what the program was built from',
  started_at BIGINT       NOT NULL COMMENT 'Unix ms UTC: since when it runs',
  seen_at    BIGINT       NOT NULL COMMENT 'Unix ms UTC: when it last wrote this row, which it does every few seconds',
  detail     MEDIUMTEXT   NOT NULL COMMENT 'JSON: its pid, its queues and kinds, the epoch of the term that it leads',
  PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'processes that run; a row that is no longer written is of one that crashed';
