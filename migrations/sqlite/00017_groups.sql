-- +goose Up
CREATE TABLE IF NOT EXISTS duetime_groups (
  name        TEXT    NOT NULL PRIMARY KEY,  -- what services call it
  follower_id BLOB    NOT NULL,              -- the id that the follower has, or will have
  follower    TEXT    NOT NULL,              -- JSON: the task that follows the last member
  sealed      INTEGER NOT NULL DEFAULT 0,    -- 1: no member is added any more
  open_parts  INTEGER NOT NULL DEFAULT 1,    -- parts with open members, and 1 while it is not sealed; 0: it has ended
  done        INTEGER NOT NULL DEFAULT 0,    -- members by their states when it ended; until then the parts have them
  dead        INTEGER NOT NULL DEFAULT 0,
  cancelled   INTEGER NOT NULL DEFAULT 0,
  note        TEXT    NOT NULL DEFAULT '',   -- why the follower was not scheduled
  created_at  INTEGER NOT NULL,              -- Unix ms UTC
  ended_at    INTEGER NULL DEFAULT NULL,     -- when its last member ended; NULL until then
  checked_at  INTEGER NOT NULL DEFAULT 0     -- when the daemon last compared it with its members' rows
) STRICT;
CREATE INDEX IF NOT EXISTS duetime_groups_ended ON duetime_groups (ended_at, name);

CREATE TABLE IF NOT EXISTS duetime_group_parts (
  name       TEXT    NOT NULL,            -- of the group
  part       INTEGER NOT NULL,            -- the sums over the parts count
  open       INTEGER NOT NULL DEFAULT 0,  -- members that are pending
  done       INTEGER NOT NULL DEFAULT 0,
  dead       INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  updated_at INTEGER NOT NULL,            -- Unix ms UTC
  PRIMARY KEY (name, part)
) STRICT;
