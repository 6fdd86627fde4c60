-- +goose Up
-- Package store adds the column tried_at to duetime_tasks.
SELECT 1;
