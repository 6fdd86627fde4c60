-- +goose Up
ALTER TABLE duetime_layout ADD COLUMN generation  INTEGER NOT NULL DEFAULT 0; -- raised by each change of shards
ALTER TABLE duetime_layout ADD COLUMN shards_from INTEGER NOT NULL DEFAULT 0; -- shards before the change that is going on; 0: none is
ALTER TABLE duetime_layout ADD COLUMN paused      INTEGER NOT NULL DEFAULT 0; -- 1: the change is paused
ALTER TABLE duetime_layout ADD COLUMN moved       INTEGER NOT NULL DEFAULT 0; -- rows moved by the last change
ALTER TABLE duetime_layout ADD COLUMN to_move     INTEGER NOT NULL DEFAULT 0; -- rows that the last change has to move, about
