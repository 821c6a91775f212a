-- Statements of the lease table that need no procedure: the uncontended path, renewals, and questions.

-- The server's calendar in microseconds since 1970.
-- :name now
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- Whether this server is still the primary. server.
-- :name is_primary
(SELECT p.server FROM holdfast_primary AS p ORDER BY p.since_us DESC, p.server DESC LIMIT 1) = ?

-- Whether this server may grant. server.
-- :name is_granting
(SELECT IF(p.ready_us <= {now}, p.server, '') FROM holdfast_primary AS p
ORDER BY p.since_us DESC, p.server DESC LIMIT 1) = ?

-- Acquires one exclusive lock that is free and that nobody waits for, if its row is there.
-- id, store, label, actor, room, ttl + grace in us, name. Gives the fence as insertId.
-- :name acquire_fast
UPDATE holdfast_locks SET used = 1, mode = 'x', size = 1, holder = ?, store = ?, label = ?, actor = ?,
  first_fence = LAST_INSERT_ID(GREATEST(fence + 1, {now})), used_fence = first_fence, room = ?,
  fence = first_fence + room, since_us = {now}, ends_us = since_us + ?, keep_us = 0, revoked = NULL,
  waiting_for = NULL, over_us = {rounded_end}
WHERE name = ? AND used = 0 AND waiting = 0 AND ended_us <= {now} AND fence < {fence_limit}

-- Releases one exclusive lock that nobody waits for. last fence that was used, name, id.
-- :name release_fast
UPDATE holdfast_locks SET used = 0,
  fence = IF(fence = first_fence + room, LEAST(fence, GREATEST(first_fence, used_fence, ?)), fence),
  room = fence - first_fence, holder = NULL, ends_us = 0
WHERE name = ? AND holder = ? AND used = 1 AND mode = 'x' AND waiting = 0 AND ends_us > {now}
  AND keep_us <= {now}

-- Renews one exclusive lock, never to an earlier end. fence in use, label, ttl + grace in us, name, id.
-- :name renew_fast
UPDATE holdfast_locks SET used_fence = ?, label = ?, ends_us = GREATEST(ends_us, {now} + ?),
  over_us = GREATEST(over_us, {rounded_end})
WHERE name = ? AND holder = ? AND used = 1 AND mode = 'x' AND ends_us > {now} AND revoked IS NULL

-- :name attempt
CALL holdfast_attempt_1(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- :name release
CALL holdfast_release_1(?, ?, ?, ?, ?, ?)

-- :name renew
CALL holdfast_renew_1(?, ?, ?, ?, ?)

-- :name revoke
CALL holdfast_revoke_1(?, ?, ?, ?, ?)

-- :name clean
CALL holdfast_clean_1()

-- How many of the keys a request holds. id, id, names.
-- :name count_owned
SELECT COUNT(*) AS owned FROM holdfast_locks AS l LEFT JOIN holdfast_holders AS h ON h.name = l.name
  AND h.id = ?
WHERE ((l.mode = 'x' AND l.holder = ? AND l.ends_us > {now} AND l.revoked IS NULL)
  OR (l.mode <> 'x' AND h.kept = 0 AND h.ends_us > {now} AND h.revoked IS NULL)) AND l.name IN ({names})

-- What a holder waits for, or NULL. waiting_for, id, names.
-- :name note_lock
UPDATE holdfast_locks SET waiting_for = ? WHERE holder = ? AND name IN ({names})

-- :name note_holder
UPDATE holdfast_holders SET waiting_for = ? WHERE id = ? AND kept = 0 AND name IN ({names})

-- One key, for people. name.
-- :name inspect_lock
SELECT {now} AS now_us, l.name, l.lock_key, l.mode, l.used, l.size, l.keep_us, {own_holder}
FROM holdfast_locks AS l WHERE l.name = ?

-- Keys in use that begin with a prefix, a page at a time. namespace, the key after which to go on, length of
-- the prefix, prefix.
-- :name list_locks
SELECT {now} AS now_us, l.name, l.lock_key, l.mode, l.used, l.size, l.keep_us, {own_holder}
  FROM holdfast_locks AS l
WHERE l.namespace = ? AND l.lock_key > ? AND SUBSTRING(l.lock_key, 1, ?) = ? AND (l.used > 0 OR l.waiting > 0)
ORDER BY l.lock_key LIMIT 200

-- Readers and permits of some keys, in the order of their grants. names.
-- :name list_holders
SELECT h.name, h.keep_us, {holder_row} FROM holdfast_holders AS h WHERE h.name IN ({names}) ORDER BY h.fence

-- Waiters of some keys, in their order. names.
-- :name list_waiters
SELECT w.name, w.label, w.shared, w.permits, w.size, w.since_us, w.alive_us FROM holdfast_waiters AS w
WHERE w.name IN ({names}) ORDER BY w.ticket

-- Rows that nobody has locked. names.
-- :name unlocked_names
SELECT name FROM holdfast_locks WHERE name IN ({names}) FOR UPDATE SKIP LOCKED

-- :name existing_names
SELECT name FROM holdfast_locks WHERE name IN ({names})

-- Waits until the session is woken, at most 20 s, and not at all if there is something to be read already.
-- blocking lock, store, time of the last call that was read, store.
-- :name notification_wait
SELECT GET_LOCK(?, IF(EXISTS (SELECT 1 FROM holdfast_waiters WHERE store = ? AND called_us > ?)
  OR EXISTS (SELECT 1 FROM holdfast_revocations WHERE store = ?), 0, 20)) AS got

-- The waiters of a store that were called and have not attempted since, and its holders that were revoked.
-- store, store.
-- :name notification_read
SELECT id, called_us, NULL AS reason FROM holdfast_waiters WHERE store = ? AND called_us > 0
UNION ALL SELECT id, 0, reason FROM holdfast_revocations WHERE store = ?

-- store, id.
-- :name notification_forget
DELETE FROM holdfast_revocations WHERE store = ? AND id = ?

-- The row of a key, locked for the caller's transaction; no row where somebody else is changing it. name.
-- :name transaction_lock_row
SELECT holder, first_fence FROM holdfast_locks WHERE name = ? FOR UPDATE SKIP LOCKED

-- The holder of a key as others see it. name.
-- :name transaction_read_holder
SELECT holder FROM holdfast_locks WHERE name = ?

-- Writes that a reserved key is free, in the caller's transaction. name, id.
-- :name transaction_free_row
UPDATE holdfast_locks SET used = 0, holder = NULL, ends_us = 0 WHERE name = ? AND holder = ?

-- Where a connection is: {server} is what tells servers of its kind apart.
-- :name transaction_place
SELECT DATABASE() AS place_name, {server} AS place_server
