-- This server is the primary from now on, unless it has become so since the newest claim was read.
-- server, newest claim, hold in us, started_us, hold_ms, newest claim, newest claim
INSERT INTO holdfast_primary (server, since_us, ready_us, seen_us, started_us, hold_ms)
VALUES (?, GREATEST({now}, ? + 1), {now} + ?, {now}, ?, ?)
ON DUPLICATE KEY UPDATE
  ready_us = IF(since_us > ?, ready_us, VALUES(ready_us)),
  started_us = VALUES(started_us),
  hold_ms = GREATEST(hold_ms, VALUES(hold_ms)),
  seen_us = VALUES(seen_us),
  since_us = IF(since_us > ?, since_us, VALUES(since_us))
