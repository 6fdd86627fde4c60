CREATE TABLE seats (
  id         BIGINT PRIMARY KEY,
  guest      VARCHAR(64) NULL,
  held_until DATETIME(3) NULL, -- in the theatre's own time
  release_id CHAR(36)    NULL  -- the task that frees the seat
);

CREATE TABLE newsletters (
  guest VARCHAR(64) PRIMARY KEY
);
