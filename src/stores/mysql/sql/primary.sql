-- Which of several servers is the primary.

-- Every server that has been the primary, the time, and the version of the schema.
-- :name primary_list
SELECT c.now_us, (SELECT m.version FROM holdfast_meta AS m WHERE m.id = 1) AS version, p.server, p.since_us,
  p.ready_us, p.seen_us, p.started_us, p.hold_ms
FROM (SELECT {now} AS now_us) AS c LEFT JOIN holdfast_primary AS p ON TRUE

-- This server is the primary from now on, unless it has become so since the newest claim was read.
-- server, newest claim, hold in us, started_us, hold_ms, newest claim, newest claim
-- :name primary_claim
INSERT INTO holdfast_primary (server, since_us, ready_us, seen_us, started_us, hold_ms)
VALUES (?, GREATEST({now}, ? + 1), {now} + ?, {now}, ?, ?)
ON DUPLICATE KEY UPDATE
  ready_us = IF(since_us > ?, ready_us, VALUES(ready_us)),
  started_us = VALUES(started_us),
  hold_ms = GREATEST(hold_ms, VALUES(hold_ms)),
  seen_us = VALUES(seen_us),
  since_us = IF(since_us > ?, since_us, VALUES(since_us))

-- The primary was restarted and is the primary still. started_us, hold_ms, server.
-- :name primary_restarted
UPDATE holdfast_primary SET started_us = ?, hold_ms = GREATEST(hold_ms, ?), seen_us = {now} WHERE server = ?

-- The primary was seen, at most twice a second. server.
-- :name primary_heartbeat
UPDATE holdfast_primary SET seen_us = {now} WHERE server = ? AND seen_us < {now} - 500000
