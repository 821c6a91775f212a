-- Makes the row of a key that has none. As swap; then name, namespace, lock_key, server.
INSERT IGNORE INTO holdfast_lock (holder, proc, label, host, process, actor, fence, room, used, since_us, ends_us, over_us, last, marks, record,
  name, namespace, lock_key, version)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1 FROM (SELECT 1 AS one) AS c WHERE {primary}
