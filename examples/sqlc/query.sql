-- name: HoldSeat :execrows
UPDATE seats SET guest = ?, held_until = ?, release_id = ? WHERE id = ? AND guest IS NULL;

-- name: FreeSeat :exec
UPDATE seats SET guest = NULL, held_until = NULL, release_id = NULL WHERE id = ? AND release_id = ?;

-- name: GetSeat :one
SELECT id, guest, held_until, release_id FROM seats WHERE id = ?;

-- name: Subscribe :exec
INSERT INTO newsletters (guest) VALUES (?);
