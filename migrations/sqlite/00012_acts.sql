-- +goose Up
-- What operators did stands among many lines of services and workers: this index has the lines of each actor together, by time.
CREATE INDEX IF NOT EXISTS duetime_history_actor ON duetime_history (actor, at);
