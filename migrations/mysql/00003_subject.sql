-- +goose Up
-- A subject may be a UUID as text. 63 letters of up to four bytes stay within the one
-- byte in which a row keeps the length, so every server widens the column without a copy of the table and without a lock.
ALTER TABLE duetime_tasks MODIFY subject VARCHAR(63) NOT NULL DEFAULT '' COMMENT 'what it is about: the pet',
  ALGORITHM = INPLACE, LOCK = NONE;
