-- +goose Up
SELECT 1; -- MySQL widens subject here; SQLite's TEXT has no limit
