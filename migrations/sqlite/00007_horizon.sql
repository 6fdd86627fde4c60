-- +goose Up
ALTER TABLE duetime_layout ADD COLUMN horizon_ms INTEGER NOT NULL DEFAULT 0; -- tasks due later than this are kept out of the index; 0: none is
ALTER TABLE duetime_layout ADD COLUMN partial    INTEGER NOT NULL DEFAULT 0; -- 1: the index may lack tasks, so that no list is read there
