-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_witness_plays (
  id        BINARY(16)   NOT NULL COMMENT 'of the play, a UUIDv7',
  judged_at BIGINT       NOT NULL COMMENT 'Unix ms UTC of the database''s clock',
  faults    VARCHAR(255) NOT NULL COMMENT 'what the judge found, with commas; empty: all was as promised',
  PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'verdicts of the witness, which schedules tasks of its own and counts broken promises';

CREATE TABLE IF NOT EXISTS duetime_witness_effects (
  seq    BIGINT      NOT NULL AUTO_INCREMENT,
  play   BINARY(16)  NOT NULL COMMENT 'the play of the task',
  part   VARCHAR(32) NOT NULL COMMENT 'what the task is in the play',
  due_at BIGINT      NOT NULL COMMENT 'Unix ms UTC: the due time with which the task ran',
  at     BIGINT      NOT NULL COMMENT 'Unix ms UTC: the database''s clock in the task''s transaction',
  data   INT         NOT NULL COMMENT 'with which the task ran',
  PRIMARY KEY (seq)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
  COMMENT = 'effects of the witness''s tasks: each row was written in the transaction of its task';
