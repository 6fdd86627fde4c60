-- +goose Up
-- Package store adds the column ran to duetime_tasks.
SELECT 1;
