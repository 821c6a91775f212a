-- Deletes rows that have been over for ten minutes and whose fences the floor covers, and heartbeats of nobody. A thousand at a time.
-- $1 the floor
WITH old AS (SELECT name FROM {locks} WHERE over_at < clock_timestamp() - interval '10 minutes' AND last <= $1::bigint AND name <> ''::bytea
    LIMIT 1000 FOR UPDATE SKIP LOCKED),
  rows AS (DELETE FROM {locks} AS t USING old WHERE t.name = old.name)
DELETE FROM {beats} WHERE seen_at < clock_timestamp() - interval '10 minutes'
