-- Renews one lease in short form, never to an earlier end. fence in use, label, ttl + grace in us, name, id, server.
UPDATE holdfast_lock SET version = version + 1, used = ?, label = ?, ends_us = GREATEST(ends_us, {now} + ?),
  over_us = ((ends_us DIV 600000000) + 1) * 600000000
WHERE name = ? AND holder = ? AND record IS NULL AND ends_us > {now} AND {primary}
