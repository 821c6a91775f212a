-- The steps of the lease table. Every procedure has the version of the schema in its name and runs with the
-- rights of its caller.
--
-- A step: 1. lock the rows of its keys, in the order of their names. 2. Read the clock: a statement that
-- waited for a row would still have the time at which it began. 3. Sweep: remove holders whose end has
-- passed; a key that must stay taken (keep_us) stays without an owner. 4. Decide and write. 5. Commit, then
-- wake the stores whose waiters were called.
--
-- Who is granted: only an attempt grants, of the first live waiter if it fits, or of a newcomer if nobody
-- waits. When a key comes free its first live waiter is called: it is told, and its deadline is the end of
-- its reservation. Nobody overtakes it meanwhile, because it is first.
--
-- p_keys: one record per key: the name (32 bytes), the last fence that was used (20 digits), the length of
-- the key (4 digits), the key. p_server: NULL, or the server that the caller takes for the primary.

-- Columns of the lock row that a step reads.
-- :name lock_columns
mode, used, size, ends_us, waiting, head, ended_us, fence, holder, first_fence, room, keep_us, revoked

-- :name into_lock
INTO l_mode, l_used, l_size, l_ends, l_waiting, l_head, l_ended, l_fence, l_holder, l_first, l_room, l_keep,
  l_revoked

-- :name declare_lock
DECLARE l_mode CHAR(1) CHARACTER SET ascii COLLATE ascii_bin;
DECLARE l_holder CHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
DECLARE l_used, l_size, l_waiting INT;
DECLARE l_ends, l_head, l_ended, l_fence, l_first, l_room, l_keep BIGINT;
DECLARE l_revoked TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
DECLARE v_at, v_key_length INT DEFAULT 1;
DECLARE v_name BINARY(32);
DECLARE v_now BIGINT DEFAULT {now};
DECLARE v_wakes TEXT CHARACTER SET ascii DEFAULT '';

-- The record at v_at, and the place of the next one.
-- :name next_key
SET v_name = SUBSTRING(p_keys, v_at, 32), v_key_length = CAST(SUBSTRING(p_keys, v_at + 52, 4) AS UNSIGNED);
SET v_at = v_at + 56 + v_key_length;

-- :name roll_back_on_error
DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

-- The lock row of v_name, locked and swept. l_mode is NULL where there is none.
-- :name lock_row
SET l_mode = NULL;
SELECT {lock_columns} {into_lock} FROM holdfast_locks WHERE name = v_name FOR UPDATE;
SET v_now = {now};
IF l_mode IS NOT NULL THEN
  IF l_mode NOT IN ('x', 's', 'p') OR l_used < 0 OR l_waiting < 0 OR l_fence < l_first + l_room
    OR l_fence >= {fence_limit}
    OR (l_mode = 'x' AND l_used > 1) THEN
    SIGNAL SQLSTATE '45002' SET MESSAGE_TEXT = 'a row of holdfast_locks is damaged';
  END IF;
  IF l_used > 0 AND l_ends <= v_now THEN
    CALL holdfast_sweep_1(v_name, v_now);
    SELECT {lock_columns} {into_lock} FROM holdfast_locks WHERE name = v_name;
  END IF;
END IF;

-- The year 2255 in microseconds. A client cannot tell numbers beyond 2^53 from their neighbours.
-- :name fence_limit
9000000000000000

-- Makes the row of a key that has none, with the floor of its namespace. Outside of a transaction. The floor
-- is locked, so that whoever cleans rows away is waited for.
-- :name create_row
INSERT IGNORE INTO holdfast_floors (namespace, floor) VALUES (p_namespace, 0);
INSERT IGNORE INTO holdfast_locks (name, namespace, lock_key, fence, over_us)
SELECT v_name, p_namespace, SUBSTRING(p_keys, v_at - v_key_length, v_key_length), f.floor, {now}
FROM holdfast_floors AS f WHERE f.namespace = p_namespace LOCK IN SHARE MODE;

-- The end of a row, kept to ten minutes, so that an index over it hardly ever changes. Follows `over_us =`.
-- :name rounded_end
((ends_us DIV 600000000) + 1) * 600000000

-- Refuses a step on a server that is not the primary. p_ready: before that time it must not grant.
-- :name procedure_check_primary
CREATE PROCEDURE holdfast_check_primary_1(
  IN p_server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_ready BIGINT
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '';
  SELECT server, ready_us INTO v_server, p_ready FROM holdfast_primary
  ORDER BY since_us DESC, server DESC LIMIT 1;
  IF v_server <> p_server THEN
    SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'another server is the primary';
  END IF;
END

-- Removes what has expired from a row that the step has locked.
-- :name procedure_sweep
CREATE PROCEDURE holdfast_sweep_1(IN p_name BINARY(32), IN p_now BIGINT) SQL SECURITY INVOKER
BEGIN
  DECLARE v_used INT;
  DECLARE v_ends BIGINT;
  UPDATE holdfast_locks SET used = IF(holder IS NOT NULL AND keep_us > p_now, 1, 0),
    ends_us = IF(used = 1, keep_us, 0), holder = NULL, waiting_for = NULL
  WHERE name = p_name AND mode = 'x' AND ends_us <= p_now;
  IF ROW_COUNT() = 0 THEN
    UPDATE holdfast_holders SET kept = 1, ends_us = keep_us, waiting_for = NULL
    WHERE name = p_name AND ends_us <= p_now AND kept = 0 AND keep_us > p_now;
    DELETE FROM holdfast_holders WHERE name = p_name AND ends_us <= p_now;
    SELECT COALESCE(SUM(permits), 0), COALESCE(MIN(ends_us), 0) INTO v_used, v_ends
    FROM holdfast_holders WHERE name = p_name;
    UPDATE holdfast_locks SET used = v_used, ends_us = v_ends WHERE name = p_name;
  END IF;
END

-- Removes one holder. p_used: the last fence that it used, or NULL where nobody can say; numbers above it
-- return to the key.
-- :name procedure_remove_holder
CREATE PROCEDURE holdfast_remove_holder_1(
  IN p_name BINARY(32), IN p_id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin, IN p_used BIGINT,
    IN p_now BIGINT
) SQL SECURITY INVOKER
BEGIN
  DECLARE v_permits INT DEFAULT 0;
  DECLARE v_keep BIGINT;
  UPDATE holdfast_locks SET used = IF(keep_us > p_now, 1, 0), ends_us = IF(used = 1, keep_us, 0),
    holder = NULL,
    fence = IF(p_used IS NOT NULL AND fence = first_fence + room,
      LEAST(fence, GREATEST(first_fence, used_fence, p_used)), fence),
    room = fence - first_fence, waiting_for = NULL
  WHERE name = p_name AND mode = 'x' AND holder = p_id;
  IF ROW_COUNT() = 0 THEN
    SELECT permits, keep_us INTO v_permits, v_keep FROM holdfast_holders
    WHERE name = p_name AND id = p_id AND kept = 0;
    IF v_permits > 0 AND v_keep > p_now THEN
      UPDATE holdfast_holders SET kept = 1, ends_us = keep_us, waiting_for = NULL
      WHERE name = p_name AND id = p_id;
      UPDATE holdfast_locks SET ends_us = LEAST(ends_us, v_keep) WHERE name = p_name;
    ELSEIF v_permits > 0 THEN
      DELETE FROM holdfast_holders WHERE name = p_name AND id = p_id;
      UPDATE holdfast_locks SET used = used - v_permits, ends_us = IF(used = 0, 0, ends_us)
      WHERE name = p_name;
    END IF;
  END IF;
END

-- Calls the first live waiter of a key if it fits beside the holders and was not called yet. Adds its store
-- to p_wakes. A waiter whose session is gone is probably dead, and gets a short time to prove the opposite.
-- :name procedure_call_waiter
CREATE PROCEDURE holdfast_call_waiter_1(
  IN p_name BINARY(32), IN p_now BIGINT, INOUT p_wakes TEXT CHARACTER SET ascii
) SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_ticket, v_head, v_called, v_claim BIGINT;
  DECLARE v_shared, v_permits, v_size, v_listens, v_used, v_held_size INT;
  DECLARE v_mode CHAR(1) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_store VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
  SELECT mode, used, size, head INTO v_mode, v_used, v_held_size, v_head FROM holdfast_locks
    WHERE name = p_name;
  SELECT ticket, shared, permits, size, called_us, claim_us, store, listens
  INTO v_ticket, v_shared, v_permits, v_size, v_called, v_claim, v_store, v_listens
  FROM holdfast_waiters WHERE name = p_name AND ticket >= v_head AND alive_us > p_now ORDER BY ticket LIMIT 1;
  IF v_ticket IS NULL OR v_called > 0 THEN LEAVE body; END IF;
  IF v_used > 0 AND NOT ((v_size > 1) = (v_held_size > 1)
    AND IF(v_size > 1, v_used + v_permits <= v_size, v_shared = 1 AND v_mode = 's')) THEN
    LEAVE body;
  END IF;
  IF v_listens = 0 THEN
    SET v_claim = GREATEST(v_claim, 1200000);
  ELSEIF IS_USED_LOCK(CONCAT('holdfast:', LEFT(v_store, 16))) IS NULL THEN
    SET v_claim = LEAST(v_claim, 250000);
  ELSE
    SET p_wakes = CONCAT(p_wakes, LEFT(v_store, 16));
  END IF;
  UPDATE holdfast_waiters SET called_us = p_now, alive_us = LEAST(alive_us, p_now + v_claim)
  WHERE name = p_name AND ticket = v_ticket;
END

-- Ends the wait of the sessions that listen for these stores, 16 characters each. Only such a session has a
-- named lock, so nothing else can be hit.
-- :name procedure_wake
CREATE PROCEDURE holdfast_wake_1(IN p_wakes TEXT CHARACTER SET ascii) SQL SECURITY INVOKER
BEGIN
  DECLARE v_at INT DEFAULT 1;
  DECLARE v_session BIGINT;
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  WHILE v_at < LENGTH(p_wakes) DO
    SET v_session = IS_USED_LOCK(CONCAT('holdfast:', SUBSTRING(p_wakes, v_at, 16)));
    IF v_session IS NOT NULL THEN KILL QUERY v_session; END IF;
    SET v_at = v_at + 16;
  END WHILE;
END

-- One attempt. Answers with one row, whose state is g granted, b busy or e ended; of a busy key with up to
-- three rows, one per holder. p_queue: 1 joins the queue, 0 does not, -1 does not and waits for no row.
-- p_again: not the first attempt of this request.
-- :name procedure_attempt
CREATE PROCEDURE holdfast_attempt_1(
  IN p_keys LONGBLOB, IN p_server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN p_namespace VARBINARY(64), IN p_id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_store VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_label VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN p_actor VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN p_shared INT, IN p_permits INT, IN p_size INT, IN p_lasts_us BIGINT, IN p_claim_us BIGINT,
  IN p_keep_us BIGINT, IN p_room BIGINT, IN p_queue INT, IN p_again INT, IN p_listens INT
) SQL SECURITY INVOKER
body: BEGIN
  {declare_lock}
  DECLARE v_mode CHAR(1) CHARACTER SET ascii COLLATE ascii_bin
    DEFAULT IF(p_size > 1, 'p', IF(p_shared = 1, 's', 'x'));
  DECLARE v_ticket, v_own_fence, v_fence, v_called, v_ready BIGINT DEFAULT 0;
  DECLARE v_before, v_position, v_own, v_own_revoked, v_fits INT DEFAULT 0;
  DECLARE v_holds_all, v_is_next INT DEFAULT 1;
  DECLARE v_holds_some, v_is_revoked, v_is_ended, v_is_locked, v_key_again INT DEFAULT 0;
  DECLARE v_again INT DEFAULT 10000;
  DECLARE v_busy BINARY(32);
  DECLARE v_fences TEXT CHARACTER SET ascii DEFAULT '';
  {roll_back_on_error}
  IF p_server IS NOT NULL THEN CALL holdfast_check_primary_1(p_server, v_ready); END IF;
  {next_key}
  -- A heartbeat of a waiter that cannot be granted: only its own row is written, and no row is waited for.
  IF p_again = 1 AND v_at > LENGTH(p_keys) THEN
    SET v_ticket = NULL;
    SELECT l.mode, l.used, l.size, l.ends_us, l.head, l.ended_us, w.ticket, w.called_us
    INTO l_mode, l_used, l_size, l_ends, l_head, l_ended, v_ticket, v_called
    FROM holdfast_locks AS l JOIN holdfast_waiters AS w ON w.name = l.name AND w.id = p_id
      WHERE l.name = v_name;
    IF v_ticket IS NOT NULL AND v_called = 0 AND l_mode IN ('x', 's', 'p') AND l_ended <= v_now AND l_used > 0
      AND l_ends > v_now
      AND NOT ({fits}) THEN
      {count_before}
      {key_again}
      UPDATE holdfast_waiters SET alive_us = v_now + v_key_again * 1000 + p_claim_us, listens = p_listens
      WHERE name = v_name AND ticket = v_ticket AND called_us = 0;
      IF ROW_COUNT() = 1 THEN
        SET v_busy = v_name, v_again = v_key_again, v_position = v_before;
        {answer_busy}
        LEAVE body;
      END IF;
    END IF;
  END IF;
  -- An attempt without a place in the queue is busy where a key is held: no row is waited for.
  IF p_queue <> 1 THEN
    SET v_at = 1;
    WHILE v_at <= LENGTH(p_keys) DO
      {next_key}
      SET l_mode = NULL, l_used = 0, v_is_locked = 0;
      SELECT mode, used, size, ends_us, holder INTO l_mode, l_used, l_size, l_ends, l_holder
      FROM holdfast_locks WHERE name = v_name;
      IF p_queue = -1 AND l_mode IS NOT NULL THEN
        SET v_is_locked = 1;
        SELECT 0 INTO v_is_locked FROM holdfast_locks WHERE name = v_name FOR UPDATE SKIP LOCKED;
      END IF;
      SET v_own = COALESCE(l_holder = p_id, 0);
      IF l_mode <> 'x' THEN
        SELECT COUNT(*) INTO v_own FROM holdfast_holders WHERE name = v_name AND id = p_id;
      END IF;
      IF v_is_locked OR (l_used > 0 AND l_mode IN ('x', 's', 'p') AND l_ends > v_now AND v_own = 0
        AND NOT ({fits})) THEN
        SET v_busy = v_name, v_before = 0;
        {key_again}
        SET v_again = v_key_again;
        {answer_busy}
        LEAVE body;
      END IF;
    END WHILE;
  END IF;
  -- Looks at every key.
  SET v_at = 1;
  START TRANSACTION;
  WHILE v_at <= LENGTH(p_keys) DO
    {next_key}
    {lock_row}
    IF l_mode IS NULL THEN
      ROLLBACK;
      {create_row}
      SET v_at = 1, v_holds_all = 1, v_is_next = 1, v_holds_some = 0, v_is_revoked = 0, v_is_ended = 0,
        v_again = 10000, v_position = 0, v_busy = NULL, v_wakes = '', v_fences = '';
      START TRANSACTION;
    ELSE
      SET v_own = 0, v_own_revoked = 0, v_ticket = NULL;
      IF l_ended > v_now AND EXISTS (SELECT 1 FROM holdfast_ended WHERE id = p_id AND name = v_name) THEN
        SET v_is_ended = 1;
      END IF;
      IF l_used > 0 AND l_mode = 'x' THEN
        SET v_own = COALESCE(l_holder = p_id, 0), v_own_fence = l_first,
          v_own_revoked = v_own AND l_revoked IS NOT NULL;
      ELSEIF l_used > 0 THEN
        -- Of a holder that is gone only `keep` may hold the key: its id has ended.
        SELECT 1, fence, revoked IS NOT NULL OR kept = 1 INTO v_own, v_own_fence, v_own_revoked
        FROM holdfast_holders WHERE name = v_name AND id = p_id;
      END IF;
      SET v_holds_all = v_holds_all AND v_own, v_holds_some = v_holds_some OR v_own,
        v_is_revoked = v_is_revoked OR v_own_revoked,
        v_fences = CONCAT(v_fences, IF(v_fences = '', '', ','), v_own_fence);
      IF l_waiting > 0 THEN
        SELECT ticket INTO v_ticket FROM holdfast_waiters WHERE name = v_name AND id = p_id;
      END IF;
      SET v_fits = {fits}, v_before = 0;
      IF l_waiting > 0 THEN
        {count_before}
      END IF;
      IF v_fits AND v_before > 0 AND v_own = 0 THEN CALL holdfast_call_waiter_1(v_name, v_now,
        v_wakes); END IF;
      IF NOT v_fits OR v_before > 0 OR v_ready > v_now THEN
        SET v_is_next = 0, v_busy = COALESCE(v_busy, v_name);
        {key_again}
        SET v_again = LEAST(v_again, v_key_again), v_position = GREATEST(v_position, v_before);
      END IF;
    END IF;
  END WHILE;
  IF v_is_ended OR v_is_revoked THEN
    COMMIT;
    CALL holdfast_wake_1(v_wakes);
    SELECT 'e' AS state, v_now AS now_us;
    LEAVE body;
  END IF;
  SET v_at = 1;
  IF v_holds_all THEN
    -- It asks again, or its answer was lost: it gets its full ttl again.
    WHILE v_at <= LENGTH(p_keys) DO
      {next_key}
      UPDATE holdfast_locks SET ends_us = IF(mode = 'x', GREATEST(ends_us, v_now + p_lasts_us), ends_us),
        over_us = GREATEST(over_us, (((v_now + p_lasts_us) DIV 600000000) + 1) * 600000000)
          WHERE name = v_name;
      UPDATE holdfast_holders SET ends_us = GREATEST(ends_us, v_now + p_lasts_us) WHERE name = v_name
        AND id = p_id;
    END WHILE;
    COMMIT;
    SELECT 'g' AS state, v_now AS now_us, v_fences AS fences;
  ELSEIF v_holds_some THEN
    -- Some of its keys were taken away by force: the rest is of no use to anybody.
    WHILE v_at <= LENGTH(p_keys) DO
      {next_key}
      CALL holdfast_remove_holder_1(v_name, p_id, NULL, v_now);
      CALL holdfast_call_waiter_1(v_name, v_now, v_wakes);
    END WHILE;
    COMMIT;
    CALL holdfast_wake_1(v_wakes);
    SELECT 'e' AS state, v_now AS now_us;
  ELSEIF v_is_next THEN
    SET v_fences = '';
    WHILE v_at <= LENGTH(p_keys) DO
      {next_key}
      {grant_key}
    END WHILE;
    COMMIT;
    CALL holdfast_wake_1(v_wakes);
    SELECT 'g' AS state, v_now AS now_us, v_fences AS fences;
  ELSE
    WHILE p_queue = 1 AND v_at <= LENGTH(p_keys) DO
      {next_key}
      UPDATE holdfast_waiters SET alive_us = v_now + v_again * 1000 + p_claim_us, called_us = 0,
        listens = p_listens
      WHERE name = v_name AND id = p_id;
      IF ROW_COUNT() = 0 THEN
        INSERT INTO holdfast_waiters
          (name, ticket, id, store, label, shared, permits, size, since_us, alive_us, claim_us, listens)
        SELECT v_name, ticket + 1, p_id, p_store, p_label, p_shared, p_permits, p_size, v_now,
          v_now + v_again * 1000 + p_claim_us, p_claim_us, p_listens FROM holdfast_locks WHERE name = v_name;
        UPDATE holdfast_locks SET head = IF(waiting = 0, ticket + 1, head), ticket = ticket + 1,
          waiting = waiting + 1, over_us = GREATEST(over_us, ((v_now DIV 600000000) + 1) * 600000000)
        WHERE name = v_name;
      END IF;
    END WHILE;
    COMMIT;
    CALL holdfast_wake_1(v_wakes);
    {answer_busy}
  END IF;
END

-- Whether this request may hold beside those who hold now. A lock and a semaphore exclude each other. Of a
-- semaphore the limit that the request itself names counts.
-- :name fits
l_used = 0 OR ((p_size > 1) = (l_size > 1)
  AND IF(p_size > 1, l_used + p_permits <= p_size, p_shared = 1 AND l_mode = 's'))

-- How many live waiters are before this request. Ten are as good as more.
-- :name count_before
SELECT COUNT(*) INTO v_before FROM (
  SELECT 1 FROM holdfast_waiters WHERE name = v_name AND ticket >= l_head
    AND ticket < COALESCE(v_ticket, 9223372036854775807) AND alive_us > v_now ORDER BY ticket LIMIT 10) AS b;

-- In how many ms this request attempts again at the latest. The first waiter comes back when the lease ends.
-- A store that nobody can wake comes back every second.
-- :name key_again
SET v_key_again = IF(v_before = 0, IF(l_used > 0, GREATEST(1, LEAST(1000, (l_ends - v_now) DIV 1000 + 1)),
  1000),
  IF(p_listens = 0, 1000, IF(v_before < 5, 1000 * v_before, IF(v_before < 10, 5000, 10000))));

-- Grants one key of a request whose keys are all free for it.
-- :name grant_key
SET v_ticket = NULL;
SELECT {lock_columns} {into_lock} FROM holdfast_locks WHERE name = v_name;
SET v_fence = GREATEST(l_fence + 1, v_now);
IF l_waiting > 0 THEN
  SELECT ticket INTO v_ticket FROM holdfast_waiters WHERE name = v_name AND id = p_id;
  IF v_ticket IS NOT NULL THEN
    DELETE FROM holdfast_waiters WHERE name = v_name AND ticket = v_ticket;
    SET l_waiting = l_waiting - 1;
  END IF;
  -- Waiters before it are dead. After ten seconds they have lost their place.
  DELETE FROM holdfast_waiters WHERE name = v_name AND ticket >= l_head
    AND ticket < COALESCE(v_ticket, 9223372036854775807) AND alive_us < v_now - 10000000;
  SET l_waiting = l_waiting - ROW_COUNT();
  SELECT COALESCE(MIN(ticket), 0) INTO l_head FROM holdfast_waiters WHERE name = v_name AND ticket >= l_head;
END IF;
IF v_mode = 'x' THEN
  UPDATE holdfast_locks SET used = 1, mode = 'x', size = 1, holder = p_id, store = p_store, label = p_label,
    actor = p_actor, first_fence = v_fence, used_fence = v_fence, room = p_room, fence = v_fence + p_room,
    since_us = v_now, ends_us = v_now + p_lasts_us, keep_us = IF(p_keep_us > 0, v_now + p_keep_us, 0),
    revoked = NULL, waiting_for = NULL, waiting = l_waiting, head = l_head,
    over_us = GREATEST(over_us, ((GREATEST(ends_us, keep_us) DIV 600000000) + 1) * 600000000)
      WHERE name = v_name;
ELSE
  INSERT INTO holdfast_holders (name, id, store, label, actor, shared, permits, fence, used_fence, since_us,
    ends_us, keep_us)
  VALUES (v_name, p_id, p_store, p_label, p_actor, p_shared, p_permits, v_fence, v_fence, v_now,
    v_now + p_lasts_us, IF(p_keep_us > 0, v_now + p_keep_us, 0));
  UPDATE holdfast_locks SET ends_us = IF(used = 0, v_now + p_lasts_us, LEAST(ends_us, v_now + p_lasts_us)),
    size = IF(used = 0, p_size, GREATEST(size, p_size)), used = used + p_permits, mode = v_mode,
      fence = v_fence,
    first_fence = v_fence, room = 0, holder = NULL, waiting = l_waiting, head = l_head,
    over_us = GREATEST(over_us, (((v_now + GREATEST(p_lasts_us, p_keep_us)) DIV 600000000) + 1) * 600000000)
  WHERE name = v_name;
  IF l_waiting > 0 THEN CALL holdfast_call_waiter_1(v_name, v_now, v_wakes); END IF;
END IF;
SET v_fences = CONCAT(v_fences, IF(v_fences = '', '', ','), v_fence);

-- A question in a condition (IF EXISTS) would wait for a row that somebody has locked; SELECT ... INTO does
-- not.
-- :name answer_busy
SELECT mode INTO l_mode FROM holdfast_locks WHERE name = v_busy;
IF l_mode = 'x' THEN
  SELECT 'b' AS state, v_now AS now_us, v_again AS again_ms, v_position AS position, used AS holders,
    {own_holder} FROM holdfast_locks AS l WHERE l.name = v_busy;
ELSE
  SELECT 'b' AS state, v_now AS now_us, v_again AS again_ms, v_position AS position,
    (SELECT COUNT(*) FROM holdfast_holders AS c WHERE c.name = v_busy) AS holders,
    {holder_row} FROM (SELECT 1 AS one) AS c LEFT JOIN holdfast_holders AS h ON h.name = v_busy LIMIT 3;
END IF;

-- A holder as people see it, from the lock row.
-- :name own_holder
IF(l.used > 0, l.label, NULL) AS label, 0 AS shared, 1 AS permits, l.used_fence AS fence,
  l.ends_us AS ends_us,
l.since_us AS since_us, l.holder IS NULL AS kept, l.waiting_for AS waiting_for, l.revoked AS revoked

-- A holder as people see it, from holdfast_holders.
-- :name holder_row
h.label AS label, h.shared AS shared, h.permits AS permits, h.used_fence AS fence, h.ends_us AS ends_us,
h.since_us AS since_us, h.kept AS kept, h.waiting_for AS waiting_for, h.revoked AS revoked

-- Ends a request: removes what it holds and its place in the queue, and calls the next waiters. p_used_known:
-- the records say which fences were used. p_mark: an attempt of it may still arrive. Answers whether it held
-- all keys.
-- :name procedure_release
CREATE PROCEDURE holdfast_release_1(
  IN p_keys LONGBLOB, IN p_server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN p_namespace VARBINARY(64), IN p_id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_used_known INT, IN p_mark INT
) SQL SECURITY INVOKER
BEGIN
  {declare_lock}
  DECLARE v_holds_all INT DEFAULT 1;
  DECLARE v_own INT;
  DECLARE v_used, v_ready BIGINT;
  {roll_back_on_error}
  IF p_server IS NOT NULL THEN CALL holdfast_check_primary_1(p_server, v_ready); END IF;
  START TRANSACTION;
  WHILE v_at <= LENGTH(p_keys) DO
    SET v_used = IF(p_used_known = 1, CAST(SUBSTRING(p_keys, v_at + 32, 20) AS UNSIGNED), NULL);
    {next_key}
    {lock_row}
    IF l_mode IS NULL AND p_mark = 1 THEN
      ROLLBACK;
      {create_row}
      SET v_at = 1, v_holds_all = 1, v_wakes = '';
      START TRANSACTION;
    ELSEIF l_mode IS NULL THEN
      SET v_holds_all = 0;
    ELSE
      IF p_mark = 1 THEN
        INSERT IGNORE INTO holdfast_ended (id, name, until_us) VALUES (p_id, v_name, v_now + 600000000);
        UPDATE holdfast_locks SET ended_us = v_now + 600000000 WHERE name = v_name;
      END IF;
      SET v_own = l_used > 0 AND l_mode = 'x' AND COALESCE(l_holder = p_id, 0);
      IF l_used > 0 AND l_mode <> 'x' THEN
        SELECT COUNT(*) INTO v_own FROM holdfast_holders WHERE name = v_name AND id = p_id AND kept = 0;
      END IF;
      SET v_holds_all = v_holds_all AND v_own;
      IF v_own THEN CALL holdfast_remove_holder_1(v_name, p_id, v_used, v_now); END IF;
      IF l_waiting > 0 THEN
        DELETE FROM holdfast_waiters WHERE name = v_name AND id = p_id;
        IF ROW_COUNT() = 1 THEN UPDATE holdfast_locks SET waiting = waiting - 1 WHERE name = v_name; END IF;
        CALL holdfast_call_waiter_1(v_name, v_now, v_wakes);
      END IF;
    END IF;
  END WHILE;
  COMMIT;
  CALL holdfast_wake_1(v_wakes);
  SELECT v_holds_all AS held, v_now AS now_us;
END

-- Renews a request of any kind. Answers with r renewed, l lost, or v revoked and the reason.
-- :name procedure_renew
CREATE PROCEDURE holdfast_renew_1(
  IN p_keys LONGBLOB, IN p_server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN p_id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_label VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_lasts_us BIGINT
) SQL SECURITY INVOKER
BEGIN
  {declare_lock}
  DECLARE v_holds_all INT DEFAULT 1;
  DECLARE v_own INT;
  DECLARE v_used, v_ready BIGINT;
  DECLARE v_reason, v_own_reason TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  {roll_back_on_error}
  IF p_server IS NOT NULL THEN CALL holdfast_check_primary_1(p_server, v_ready); END IF;
  START TRANSACTION;
  WHILE v_at <= LENGTH(p_keys) DO
    {next_key}
    {lock_row}
    SET v_own = l_mode IS NOT NULL AND l_used > 0 AND l_mode = 'x' AND COALESCE(l_holder = p_id, 0);
    IF v_own THEN
      SET v_reason = COALESCE(v_reason, l_revoked);
    ELSEIF l_mode IS NOT NULL AND l_used > 0 THEN
      SET v_own_reason = NULL;
      SELECT 1, revoked INTO v_own, v_own_reason FROM holdfast_holders
      WHERE name = v_name AND id = p_id AND kept = 0;
      SET v_reason = COALESCE(v_reason, v_own_reason);
    END IF;
    SET v_holds_all = v_holds_all AND v_own;
  END WHILE;
  SET v_at = 1;
  WHILE v_holds_all AND v_reason IS NULL AND v_at <= LENGTH(p_keys) DO
    SET v_used = CAST(SUBSTRING(p_keys, v_at + 32, 20) AS UNSIGNED);
    {next_key}
    UPDATE holdfast_locks SET ends_us = IF(mode = 'x', GREATEST(ends_us, v_now + p_lasts_us), ends_us),
      used_fence = IF(mode = 'x', v_used, used_fence), label = IF(mode = 'x', p_label, label),
      over_us = GREATEST(over_us, (((v_now + p_lasts_us) DIV 600000000) + 1) * 600000000) WHERE name = v_name;
    UPDATE holdfast_holders SET ends_us = GREATEST(ends_us, v_now + p_lasts_us), used_fence = v_used,
      label = p_label
    WHERE name = v_name AND id = p_id;
  END WHILE;
  COMMIT;
  SELECT IF(NOT v_holds_all, 'l', IF(v_reason IS NULL, 'r', 'v')) AS state, v_reason AS reason,
    v_now AS now_us;
END

-- Revokes the holders of one key, or the one with this fence. Answers with free, other-fence or revoked.
-- :name procedure_revoke
CREATE PROCEDURE holdfast_revoke_1(
  IN p_keys LONGBLOB, IN p_server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_fence BIGINT,
  IN p_reason TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_force INT
) SQL SECURITY INVOKER
body: BEGIN
  {declare_lock}
  DECLARE v_met INT DEFAULT 0;
  DECLARE v_ready BIGINT;
  DECLARE v_stores TEXT CHARACTER SET ascii;
  {roll_back_on_error}
  IF p_server IS NOT NULL THEN CALL holdfast_check_primary_1(p_server, v_ready); END IF;
  {next_key}
  START TRANSACTION;
  {lock_row}
  IF l_mode IS NULL OR l_used = 0 THEN
    COMMIT;
    SELECT 'free' AS answer;
    LEAVE body;
  END IF;
  IF l_mode = 'x' AND (p_fence IS NULL OR (l_first <= p_fence AND p_fence <= l_first + l_room)) THEN
    SET v_met = 1;
    INSERT IGNORE INTO holdfast_revocations (store, id, reason, until_us)
    SELECT store, holder, p_reason, v_now + 600000000 FROM holdfast_locks WHERE name = v_name
      AND holder IS NOT NULL;
    SELECT LEFT(store, 16) INTO v_stores FROM holdfast_locks WHERE name = v_name AND holder IS NOT NULL;
    UPDATE holdfast_locks SET revoked = p_reason, keep_us = 0,
      used = IF(p_force = 1 OR holder IS NULL, 0, 1), ends_us = IF(used = 0, 0, ends_us),
      holder = IF(used = 0, NULL, holder) WHERE name = v_name;
  ELSEIF l_mode <> 'x' THEN
    SELECT COUNT(*) INTO v_met FROM holdfast_holders
    WHERE name = v_name AND (p_fence IS NULL OR fence = p_fence);
    INSERT IGNORE INTO holdfast_revocations (store, id, reason, until_us)
    SELECT store, id, p_reason, v_now + 600000000 FROM holdfast_holders
    WHERE name = v_name AND kept = 0 AND (p_fence IS NULL OR fence = p_fence);
    SELECT GROUP_CONCAT(DISTINCT LEFT(store, 16) SEPARATOR '') INTO v_stores FROM holdfast_holders
    WHERE name = v_name AND kept = 0 AND (p_fence IS NULL OR fence = p_fence);
    UPDATE holdfast_holders SET revoked = p_reason, keep_us = 0
    WHERE name = v_name AND (p_fence IS NULL OR fence = p_fence);
    DELETE FROM holdfast_holders WHERE name = v_name AND (p_fence IS NULL OR fence = p_fence)
      AND (p_force = 1 OR kept = 1);
    UPDATE holdfast_locks AS l SET
      l.used = (SELECT COALESCE(SUM(h.permits), 0) FROM holdfast_holders AS h WHERE h.name = v_name),
      l.ends_us = (SELECT COALESCE(MIN(h.ends_us), 0) FROM holdfast_holders AS h WHERE h.name = v_name)
    WHERE l.name = v_name;
  END IF;
  IF v_met > 0 THEN CALL holdfast_call_waiter_1(v_name, v_now, v_wakes); END IF;
  COMMIT;
  CALL holdfast_wake_1(CONCAT(COALESCE(v_stores, ''), v_wakes));
  SELECT IF(v_met > 0, 'revoked', 'other-fence') AS answer;
END

-- A row that can be cleaned away. A damaged fence stays, or it would be the floor of all others.
-- :name is_over
l.over_us < v_now - 600000000 AND l.ends_us <= v_now AND l.ended_us <= v_now AND l.fence < {fence_limit}
AND (l.waiting = 0 OR NOT EXISTS (
  SELECT 1 FROM holdfast_waiters AS w WHERE w.name = l.name AND w.alive_us > v_now))

-- Cleans away up to 500 rows of one namespace that have been over for ten minutes, and raises the floor of
-- its fences in the same step. Whoever creates a row again waits for the floor. Answers how many rows it
-- deleted.
-- :name procedure_clean
CREATE PROCEDURE holdfast_clean_1() SQL SECURITY INVOKER
body: BEGIN
  DECLARE v_name BINARY(32);
  DECLARE v_namespace VARBINARY(64) DEFAULT NULL;
  DECLARE v_floor, v_fence BIGINT;
  DECLARE v_count, v_waiting, v_is_done INT DEFAULT 0;
  DECLARE v_mode CHAR(1) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE v_now BIGINT DEFAULT {now};
  DECLARE old CURSOR FOR SELECT l.name, l.fence, l.mode, l.waiting FROM holdfast_locks AS l
    WHERE {is_over} AND l.namespace = v_namespace ORDER BY l.over_us LIMIT 500 FOR UPDATE SKIP LOCKED;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_is_done = 1;
  {roll_back_on_error}
  DELETE FROM holdfast_ended WHERE until_us < v_now LIMIT 500;
  DELETE FROM holdfast_revocations WHERE until_us < v_now LIMIT 500;
  SELECT l.namespace INTO v_namespace FROM holdfast_locks AS l
  WHERE {is_over} ORDER BY l.over_us LIMIT 1 FOR UPDATE SKIP LOCKED;
  SET v_is_done = 0;
  IF v_namespace IS NULL THEN
    SELECT 0 AS cleaned;
    LEAVE body;
  END IF;
  INSERT IGNORE INTO holdfast_floors (namespace, floor) VALUES (v_namespace, 0);
  START TRANSACTION;
  SELECT floor INTO v_floor FROM holdfast_floors WHERE namespace = v_namespace FOR UPDATE;
  OPEN old;
  rows_of_old: LOOP
    FETCH old INTO v_name, v_fence, v_mode, v_waiting;
    IF v_is_done THEN LEAVE rows_of_old; END IF;
    SET v_floor = GREATEST(v_floor, v_fence), v_count = v_count + 1;
    DELETE FROM holdfast_locks WHERE name = v_name;
    IF v_mode <> 'x' THEN DELETE FROM holdfast_holders WHERE name = v_name; END IF;
    IF v_waiting <> 0 THEN DELETE FROM holdfast_waiters WHERE name = v_name; END IF;
    SET v_is_done = 0;
  END LOOP;
  CLOSE old;
  UPDATE holdfast_floors SET floor = GREATEST(floor, v_floor) WHERE namespace = v_namespace;
  COMMIT;
  SELECT v_count AS cleaned;
END
