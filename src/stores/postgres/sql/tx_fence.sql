-- Draws a fence for the caller's transaction, which keeps the row locked until it ends.
-- $1 name, $2 fence
UPDATE {locks} SET version = version + 1, last = $2::bigint WHERE name = $1
