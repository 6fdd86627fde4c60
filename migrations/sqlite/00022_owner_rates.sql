-- +goose Up
ALTER TABLE duetime_limits ADD COLUMN owner_rate TEXT NULL DEFAULT NULL; -- an operator's rate for each owner, such as 5/s; empty: none; NULL: as configured
