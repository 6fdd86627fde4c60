-- +goose Up
ALTER TABLE duetime_layout ADD COLUMN deployment TEXT NOT NULL DEFAULT ''; -- id of this schema, made by migrate
