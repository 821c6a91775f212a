-- Deletes rows that have been over for ten minutes and whose fences the floor covers, and heartbeats of nobody. 10,000 at a time.
-- $1 the floor
-- Returns whether there may be more.
WITH old AS (SELECT name FROM {locks} WHERE over_at < clock_timestamp() - interval '10 minutes' AND last <= $1::bigint AND name <> ''::bytea
    LIMIT 10000 FOR UPDATE SKIP LOCKED),
  rows AS (DELETE FROM {locks} AS t USING old WHERE t.name = old.name),
  beats AS (DELETE FROM {beats} WHERE seen_at < clock_timestamp() - interval '10 minutes')
SELECT (count(*) = 10000)::text AS more FROM old
