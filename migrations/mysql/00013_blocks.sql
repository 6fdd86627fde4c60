-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_blocks (
  owner VARCHAR(64)  NOT NULL COMMENT 'whose tasks do not run, and who gets no new ones',
  at    BIGINT       NOT NULL COMMENT 'Unix ms UTC: since when',
  actor VARCHAR(128) NOT NULL DEFAULT '' COMMENT 'who has blocked the owner',
  PRIMARY KEY (owner),
  KEY duetime_blocks_at (at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'blocked owners';
