-- The rules of the lease store, one function per call of the store. Version 2 is in their names, so that two
-- versions of
-- holdfast can use one database while they are rolled out.
--
-- 1. Sweep: holders whose end has passed leave. A key that must stay taken (keep_until) loses only its owner.
-- 2. The first live waiter that fits is called: its store is notified and the key is reserved for it. An
-- exclusive waiter blocks
-- the others because it is first. A reader or permit holder gets a reserved row in {holder}, so that those
-- behind it can be
--  called too.
-- 3. Only an attempt grants: of the waiter that is first and fits, or of a newcomer when nobody waits.
-- 4. A waiter that does not answer its call in time keeps its place, but is passed over until it attempts
-- again.
--
-- Tables are read with fresh snapshots after the row of the key is locked (READ COMMITTED). Under a stricter
-- isolation level the
-- server refuses what it could not decide so, with 40001, and the store repeats the call.
-- enable_seqscan is off because a session would keep a plan that it made while the tables were empty.

-- Whether a waiter may hold beside the holders of a key.
CREATE OR REPLACE FUNCTION {fits}(l {lock}, p_mode "char", p_permits integer, p_limit integer)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT l.in_use = 0 OR (l.mode <> 'x' AND p_mode <> 'x' AND (p_limit > 1) = (l.permit_limit > 1)
    AND (p_limit = 1 OR l.in_use + p_permits <= p_limit))
$$;

-- A holder as an array: label, mode, permits, fence, ms left, ms held, what it waits for, reason of a
-- revocation, kept.
CREATE OR REPLACE FUNCTION {show}(p_label text, p_mode "char", p_permits integer, p_fence bigint,
  p_since timestamptz,
  p_ends timestamptz, p_keep timestamptz, p_waiting_for bytea, p_revoked text, p_owned boolean,
    p_now timestamptz)
RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN p_owned AND p_ends > p_now
    THEN jsonb_build_array(p_label, p_mode::text, p_permits, p_fence::text, extract(epoch
      FROM p_ends - p_now) * 1000,
      extract(epoch FROM p_now - p_since) * 1000, encode(p_waiting_for, 'hex'), p_revoked, false)
    ELSE jsonb_build_array(p_label, p_mode::text, p_permits, p_fence::text,
      extract(epoch FROM greatest(p_ends, p_keep) - p_now) * 1000, extract(epoch
        FROM p_now - p_since) * 1000, NULL, NULL, true) END
$$;

-- The holders of a key, by the end of their leases, at most so many.
CREATE OR REPLACE FUNCTION {show_holders}(l {lock}, p_most integer, p_now timestamptz)
RETURNS jsonb LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
  IF l.in_use = 0 OR (l.mode = 'x' AND l.ends_at <= p_now AND coalesce(l.keep_until <= p_now, true)) THEN
    RETURN '[]';
  ELSIF l.mode = 'x' THEN
    RETURN jsonb_build_array({show}(l.label, 'x', 1, l.fence_used, l.since_at, l.ends_at, l.keep_until,
      l.waiting_for, l.revoked, l.id IS NOT NULL, p_now));
  END IF;
  RETURN (SELECT coalesce(jsonb_agg({show}(h.label, h.mode, h.permits, h.fence, h.since_at, h.ends_at,
    h.keep_until, h.waiting_for, h.revoked, h.state <> 'k', p_now) ORDER BY h.fence), '[]'::jsonb)
    FROM (SELECT * FROM {holder} AS i WHERE i.name = l.name AND greatest(i.ends_at, i.keep_until) > p_now
      ORDER BY i.ends_at, i.id LIMIT p_most) AS h WHERE h.state <> 'r');
END
$$;

-- Whether nobody of ours can have written a row.
CREATE OR REPLACE FUNCTION {is_damaged}(l {lock}) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT l.last_fence NOT BETWEEN 0 AND 9007199254740991 OR l.mode NOT IN ('x', 's', 'p') OR l.in_use < 0
    OR l.holders < 0
    OR l.waiting < 0 OR l.permit_limit < 1 OR l.head < 1 OR l.last_ticket < 0
    OR (l.in_use > 0 AND CASE l.mode WHEN 'x' THEN
      l.in_use <> 1 OR coalesce(l.fence NOT BETWEEN 0 AND l.last_fence, true) OR coalesce(l.room NOT BETWEEN 0
        AND 1000000000, true)
      OR coalesce(l.fence_used NOT BETWEEN l.fence AND l.fence + l.room, true) OR l.label IS NULL
        OR l.since_at IS NULL
      OR CASE WHEN l.id IS NULL THEN l.keep_until IS NULL ELSE l.proc IS NULL END
      ELSE l.holders = 0 END)
$$;

CREATE OR REPLACE FUNCTION {refuse_damaged}(l {lock}) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF {is_damaged}(l) THEN
    RAISE EXCEPTION 'the row is damaged' USING ERRCODE = 'HF001', DETAIL = encode(l.name, 'hex');
  END IF;
END
$$;

-- Makes the row of a key if it is not there. A new row begins above the floor of the fences.
CREATE OR REPLACE FUNCTION {make_row}(p_name bytea, p_namespace text, p_key bytea) RETURNS void
  LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE v_floor bigint;
BEGIN
  INSERT INTO {lock} (name, namespace, key, changed_at) VALUES (p_name, p_namespace, p_key, clock_timestamp())
    ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN RETURN; END IF;
  -- Read after the row is made: whoever deleted an earlier row has raised the floor before.
  IF current_setting('transaction_isolation') = 'read committed' THEN
    SELECT max(value) INTO v_floor FROM {meta} WHERE name IN ('floor:', 'floor:' || p_namespace);
  ELSE
    -- A snapshot that is too old for it makes an error of a lock.
    SELECT max(value) INTO v_floor FROM (SELECT value FROM {meta}
      WHERE name IN ('floor:', 'floor:' || p_namespace) FOR SHARE) AS f;
  END IF;
  UPDATE {lock} AS t SET last_fence = v_floor WHERE t.name = p_name AND t.last_fence < v_floor;
END
$$;

-- The row of a key, locked, and made if it is not there and p_make.
CREATE OR REPLACE FUNCTION {lock_row}(p_name bytea, p_namespace text, p_key bytea, p_make boolean)
RETURNS {lock} LANGUAGE plpgsql AS $$
DECLARE l {lock};
BEGIN
  LOOP
    SELECT t.* INTO l FROM {lock} AS t WHERE t.name = p_name FOR UPDATE;
    IF FOUND THEN PERFORM {refuse_damaged}(l); RETURN l; END IF;
    IF NOT p_make THEN RETURN NULL; END IF;
    PERFORM {make_row}(p_name, p_namespace, p_key);
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION {save}(l {lock}, p_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE {lock} AS t SET last_fence = l.last_fence, mode = l.mode, in_use = l.in_use, holders = l.holders,
    permit_limit = l.permit_limit, ends_at = l.ends_at, waiting = l.waiting, last_ticket = l.last_ticket,
    head = l.head, ended_until = l.ended_until, changed_at = p_now, id = l.id, proc = l.proc,
    label = l.label, fence = l.fence, room = l.room, fence_used = l.fence_used, since_at = l.since_at,
    keep_until = l.keep_until, revoked = l.revoked, waiting_for = l.waiting_for
  WHERE t.name = l.name;
END
$$;

-- Takes the exclusive holder out, or only its ownership while the key must stay taken.
CREATE OR REPLACE FUNCTION {remove_exclusive}(l {lock}, p_now timestamptz) RETURNS {lock}
  LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF l.id IS NOT NULL AND l.keep_until > p_now THEN
    l.ends_at := l.keep_until;
  ELSE
    l.in_use := 0; l.label := NULL; l.fence := NULL; l.room := NULL; l.fence_used := NULL; l.since_at := NULL;
      l.keep_until := NULL;
  END IF;
  l.id := NULL; l.proc := NULL; l.revoked := NULL; l.waiting_for := NULL;
  RETURN l;
END
$$;

-- Takes a reader or permit holder out, or only its ownership while its permits must stay taken.
CREATE OR REPLACE FUNCTION {remove_counted}(l {lock}, h {holder}, p_now timestamptz) RETURNS {lock}
  LANGUAGE plpgsql AS $$
BEGIN
  IF h.state IN ('h', 'v') AND h.keep_until > p_now THEN
    UPDATE {holder} AS t SET state = 'k', ends_at = t.keep_until, revoked = NULL, waiting_for = NULL
      WHERE t.name = h.name AND t.id = h.id;
    l.ends_at := least(l.ends_at, h.keep_until);
    RETURN l;
  END IF;
  DELETE FROM {holder} AS t WHERE t.name = h.name AND t.id = h.id;
  l.in_use := l.in_use - h.permits;
  l.holders := l.holders - 1;
  RETURN l;
END
$$;

CREATE OR REPLACE FUNCTION {sweep}(INOUT l {lock}, p_now timestamptz, OUT is_changed boolean)
  LANGUAGE plpgsql AS $$
DECLARE h {holder}; v_ticket bigint;
BEGIN
  is_changed := false;
  IF l.in_use = 0 OR l.ends_at > p_now THEN RETURN; END IF;
  IF l.mode = 'x' THEN
    l := {remove_exclusive}(l, p_now);
    is_changed := true;
    RETURN;
  END IF;
  FOR h IN SELECT * FROM {holder} AS t WHERE t.name = l.name AND t.ends_at <= p_now FOR UPDATE LOOP
    l := {remove_counted}(l, h, p_now);
    is_changed := true;
    IF h.state = 'r' THEN
      -- Nobody came for a reserved place: the waiter returns to its ticket.
      UPDATE {waiter} AS t SET ticket = -t.ticket, is_missed = true WHERE t.name = l.name AND t.id = h.id
        AND t.ticket < 0
        RETURNING t.ticket INTO v_ticket;
      IF FOUND THEN l.head := least(l.head, v_ticket); END IF;
    END IF;
  END LOOP;
  SELECT t.ends_at INTO l.ends_at FROM {holder} AS t WHERE t.name = l.name ORDER BY t.ends_at LIMIT 1;
  IF NOT FOUND THEN l.ends_at := '-infinity'; l.in_use := 0; l.holders := 0; END IF;
END
$$;

-- The first waiter that may be called. Dead waiters on the way to it leave the queue.
CREATE OR REPLACE FUNCTION {first}(INOUT l {lock}, p_asker text, p_now timestamptz, OUT w {waiter},
  OUT is_changed boolean)
LANGUAGE plpgsql AS $$
DECLARE v_head bigint;
BEGIN
  is_changed := false;
  IF l.waiting = 0 THEN RETURN; END IF;
  FOR w IN SELECT * FROM {waiter} AS t WHERE t.name = l.name AND t.ticket >= l.head ORDER BY t.ticket LOOP
    IF w.alive_until < p_now AND w.id IS DISTINCT FROM p_asker THEN
      DELETE FROM {waiter} AS t WHERE t.name = l.name AND t.ticket = w.ticket AND t.alive_until < p_now;
      IF FOUND THEN l.waiting := l.waiting - 1; is_changed := true; CONTINUE; END IF;
    END IF;
    v_head := coalesce(v_head, w.ticket);
    IF w.called_until < p_now AND NOT w.is_missed THEN
      UPDATE {waiter} AS t SET is_missed = true WHERE t.name = l.name AND t.ticket = w.ticket;
      w.is_missed := true; is_changed := true;
    END IF;
    IF NOT w.is_missed THEN l.head := v_head; RETURN; END IF;
  END LOOP;
  w := NULL;
  l.head := coalesce(v_head, l.last_ticket + 1);
END
$$;

-- Calls waiters as long as the first of them fits. is_mine: that is p_asker, who is here already.
CREATE OR REPLACE FUNCTION {settle}(INOUT l {lock}, p_asker text, p_now timestamptz, OUT is_mine boolean)
  LANGUAGE plpgsql AS $$
DECLARE r record; w {waiter}; v_until timestamptz;
BEGIN
  is_mine := false;
  LOOP
    r := {first}(l, p_asker, p_now);
    l := r.l; w := r.w;
    IF w.id IS NULL OR NOT {fits}(l, w.mode, w.permits, w.permit_limit) THEN RETURN; END IF;
    IF w.id = p_asker THEN is_mine := true; RETURN; END IF;
    IF w.called_until >= p_now THEN RETURN; END IF;
    v_until := p_now + w.claim_ms * interval '1 millisecond';
    PERFORM pg_notify('holdfast_' || w.proc, 'turn ' || w.id);
    IF w.mode = 'x' OR w.several THEN
      UPDATE {waiter} AS t SET called_until = v_until WHERE t.name = l.name AND t.ticket = w.ticket;
      RETURN;
    END IF;
    UPDATE {waiter} AS t SET called_until = v_until, ticket = -t.ticket WHERE t.name = l.name
      AND t.ticket = w.ticket;
    l := {add_counted}(l, w.id, w.proc, w.label, 'r', w.mode, w.permits, w.permit_limit, 0, p_now, v_until,
      NULL);
  END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION {add_counted}(l {lock}, p_id text, p_proc text, p_label text, p_state "char",
  p_mode "char",
  p_permits integer, p_limit integer, p_fence bigint, p_now timestamptz, p_ends timestamptz,
    p_keep timestamptz)
RETURNS {lock} LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO {holder} (name, id, proc, label, state, mode, permits, fence, since_at, ends_at, keep_until)
    VALUES (l.name, p_id, p_proc, p_label, p_state, p_mode, p_permits, p_fence, p_now, p_ends, p_keep);
  l.permit_limit := CASE l.in_use WHEN 0 THEN p_limit ELSE greatest(l.permit_limit, p_limit) END;
  l.ends_at := CASE l.in_use WHEN 0 THEN p_ends ELSE least(l.ends_at, p_ends) END;
  l.in_use := l.in_use + p_permits;
  l.holders := l.holders + 1;
  l.mode := p_mode;
  RETURN l;
END
$$;

-- How many wait before a ticket; dead waiters count until they are found.
CREATE OR REPLACE FUNCTION {position}(l {lock}, p_ticket bigint) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT greatest(0, least(p_ticket - l.head, l.waiting - 1))::integer
$$;

-- In how many ms a waiter attempts again at the latest. The time waited matters: with the position alone a
-- fast queue would stall
-- after a crash. The first waiter also looks when the lease ends.
CREATE OR REPLACE FUNCTION {again_ms}(l {lock}, p_ticket bigint, p_since timestamptz, p_poll_ms integer,
  p_now timestamptz)
RETURNS integer LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_ticket <= l.head AND l.in_use > 0
    THEN greatest(1, least(p_poll_ms, ceil(extract(epoch FROM l.ends_at - p_now) * 1000) + 1))
    ELSE least(10000, p_poll_ms * (1 + {position}(l, p_ticket)),
      greatest(p_poll_ms, floor(extract(epoch FROM p_now - p_since) * 500))) END::integer
$$;

-- 'b', ms until the next attempt, position, number of holders, and three holders.
CREATE OR REPLACE FUNCTION {busy}(p_names bytea[], p_again_ms integer, p_position integer, p_now timestamptz)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE l {lock}; v_count integer := 0; v_holders jsonb := '[]';
BEGIN
  FOR l IN SELECT t.* FROM {lock} AS t WHERE t.name = ANY (p_names) LOOP
    v_count := v_count + CASE l.mode WHEN 'x' THEN l.in_use ELSE l.holders END;
    v_holders := v_holders || {show_holders}(l, 3, p_now);
  END LOOP;
  IF cardinality(p_names) > 1 THEN
    v_holders := (SELECT coalesce(jsonb_agg(h.one ORDER BY h.one ->> 3), '[]')
      FROM (SELECT one FROM jsonb_array_elements(v_holders) AS one LIMIT 3) AS h);
  END IF;
  RETURN concat_ws(' ', 'b', p_again_ms, p_position, v_count, v_holders);
END
$$;

-- The first attempt for one exclusive lock. Where the key is free and nobody waits, one row is written, as by
-- attempt_free.sql. Arguments and answer as of {attempt}.
CREATE OR REPLACE FUNCTION {attempt_one}(p_name bytea, p_id text, p_proc text, p_label text, p_room integer,
  p_lasts_us bigint, p_namespace text, p_key bytea, p_claim_ms integer, p_poll_ms integer, p_queue boolean)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_us bigint := (extract(epoch FROM v_now) * 1000000)::bigint;
  v_fence bigint;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  UPDATE {lock} AS t SET in_use = 1, mode = 'x', permit_limit = 1, id = p_id, proc = p_proc, label = p_label,
    fence = greatest(t.last_fence + 1, v_us), room = p_room, fence_used = greatest(t.last_fence + 1, v_us),
    last_fence = greatest(t.last_fence + 1, v_us) + p_room, since_at = v_now,
    ends_at = v_now + p_lasts_us * interval '1 microsecond', keep_until = NULL, revoked = NULL,
    waiting_for = NULL, changed_at = v_now
  WHERE t.name = p_name AND t.in_use = 0 AND t.waiting = 0 AND t.holders = 0
    AND t.last_fence BETWEEN 0 AND 9007199254740991 AND t.ended_until < v_now
  RETURNING t.fence INTO v_fence;
  IF FOUND THEN RETURN 'g ' || p_room || ' ' || v_fence; END IF;
  RETURN {attempt}(ARRAY[p_name], p_namespace, ARRAY[p_key], p_id, p_proc, p_label, 'x', 1, 1, p_room,
    p_lasts_us, 0, p_claim_ms, p_poll_ms, false, p_queue);
END
$$;

-- One attempt for all of these keys, whose names are in order.
-- p_lasts_us: ttl + grace. p_claim_ms: for how long the key is reserved for it. p_poll_ms: how often the
-- first waiter attempts again.
-- Answers 'g room fence...' granted, 'b ...' busy, 'e' ended.
CREATE OR REPLACE FUNCTION {attempt}(p_names bytea[], p_namespace text, p_keys bytea[], p_id text,
  p_proc text, p_label text, p_mode "char", p_permits integer, p_limit integer, p_room integer,
  p_lasts_us bigint, p_keep_us bigint, p_claim_ms integer, p_poll_ms integer, p_is_repeated boolean,
  p_queue boolean)
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_again integer; v_position integer; v_count integer; v_is_blocked boolean;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  -- While one of the keys is held exclusively, a waiter only shows that it lives: it writes its own row and
  -- locks no key. Its rows are found by id alone: with the name a plan could read every waiter of the key.
  IF p_is_repeated AND p_queue THEN
    SELECT count(*), bool_or(t.in_use > 0 AND t.mode = 'x' AND t.ends_at > v_now),
      min({again_ms}(t, o.ticket, o.since_at, p_poll_ms, v_now)), max({position}(t, o.ticket))
      INTO v_count, v_is_blocked, v_again, v_position
      FROM {waiter} AS o JOIN {lock} AS t ON t.name = o.name
      WHERE o.id = p_id AND o.called_until IS NULL AND o.alive_until > v_now
        AND (t.ended_until < v_now OR NOT EXISTS (SELECT FROM {ended} AS e WHERE e.id = p_id
          AND e.name = t.name))
        AND NOT {is_damaged}(t);
    IF v_count = cardinality(p_names) AND v_is_blocked THEN
      UPDATE {waiter} AS t SET alive_until = v_now + (v_again + 1000) * interval '1 millisecond'
        WHERE t.id = p_id AND t.called_until IS NULL;
      GET DIAGNOSTICS v_count = ROW_COUNT;
      IF v_count = cardinality(p_names) THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        RETURN {busy}(p_names, v_again, v_position, v_now);
      END IF;
    END IF;
  END IF;
  RETURN {decide}(p_names, p_namespace, p_keys, p_id, p_proc, p_label, p_mode, p_permits, p_limit, p_room,
    p_lasts_us, p_keep_us,
    p_claim_ms, p_poll_ms, p_queue);
END
$$;

-- An attempt that is neither simple nor a heartbeat: with all rows locked, the rules decide.
CREATE OR REPLACE FUNCTION {decide}(p_names bytea[], p_namespace text, p_keys bytea[], p_id text, p_proc text,
  p_label text,
  p_mode "char", p_permits integer, p_limit integer, p_room integer, p_lasts_us bigint, p_keep_us bigint,
    p_claim_ms integer,
  p_poll_ms integer, p_queue boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_now timestamptz; v_ends timestamptz; v_keep timestamptz; v_alive timestamptz;
  l {lock}; h {holder}; w {waiter}; r record;
  v_locks {lock}[]; v_before {lock}[]; v_is_changed boolean[]; v_places {waiter}[];
  v_held integer := 0; v_is_over boolean := false; v_is_next boolean := true;
  v_fence bigint; v_again integer := 10000; v_position integer := 0; v_answer text := 'g ' || p_room;
BEGIN
  FOR i IN 1 .. cardinality(p_names) LOOP
    v_locks[i] := {lock_row}(p_names[i], p_namespace, p_keys[i], true);
  END LOOP;
  v_before := v_locks;
  v_now := clock_timestamp();
  v_ends := v_now + p_lasts_us * interval '1 microsecond';
  IF p_keep_us > 0 THEN v_keep := v_now + p_keep_us * interval '1 microsecond'; END IF;
  IF EXISTS (SELECT FROM {ended} AS t WHERE t.id = p_id AND t.name = ANY (p_names)) THEN RETURN 'e'; END IF;
  FOR i IN 1 .. cardinality(p_names) LOOP
    r := {sweep}(v_locks[i], v_now);
    l := r.l; v_locks[i] := l; v_is_changed[i] := r.is_changed;
    IF l.in_use > 0 AND l.mode = 'x' THEN
      IF l.id = p_id THEN v_held := v_held + 1; v_is_over := v_is_over OR l.revoked IS NOT NULL; END IF;
    ELSIF l.in_use > 0 THEN
      SELECT t.* INTO h FROM {holder} AS t WHERE t.name = l.name AND t.id = p_id;
      IF h.state IN ('h', 'v') THEN v_held := v_held + 1; END IF;
      IF h.state IN ('v', 'k') THEN v_is_over := true; END IF;
    END IF;
  END LOOP;
  IF v_held > 0 OR v_is_over THEN
    -- It holds all keys and gets its full ttl again; or it was revoked; or some of its keys were taken away,
    -- and the rest is of no
    -- use to anybody.
    FOR i IN 1 .. cardinality(p_names) LOOP
      l := v_locks[i];
      SELECT t.* INTO h FROM {holder} AS t WHERE t.name = l.name AND t.id = p_id AND t.state = 'h';
      IF v_is_over THEN NULL;
      ELSIF v_held = cardinality(p_names) AND h.id IS NULL THEN
        l.ends_at := greatest(l.ends_at, v_ends); l.label := p_label;
        v_answer := CASE i WHEN 1 THEN 'g ' || l.room ELSE v_answer END || ' ' || l.fence;
      ELSIF v_held = cardinality(p_names) THEN
        UPDATE {holder} AS t SET ends_at = greatest(t.ends_at, v_ends), label = p_label WHERE t.name = h.name
          AND t.id = h.id;
        v_answer := CASE i WHEN 1 THEN 'g 0' ELSE v_answer END || ' ' || h.fence;
      ELSE
        IF l.in_use > 0 AND l.mode = 'x' AND l.id = p_id THEN l := {remove_exclusive}(l, v_now); END IF;
        IF h.id IS NOT NULL THEN l := {remove_counted}(l, h, v_now); END IF;
        r := {settle}(l, NULL, v_now); l := r.l;
      END IF;
      IF l IS DISTINCT FROM v_before[i] THEN PERFORM {save}(l, v_now); END IF;
    END LOOP;
    RETURN CASE WHEN v_is_over OR v_held < cardinality(p_names) THEN 'e' ELSE v_answer END;
  END IF;
  FOR i IN 1 .. cardinality(p_names) LOOP
    l := v_locks[i];
    -- It is heard of: a call that it did not answer in time is forgotten.
    UPDATE {waiter} AS t SET alive_until = greatest(t.alive_until, v_now), called_until = NULL,
      is_missed = false
      WHERE t.id = p_id AND t.name = l.name RETURNING t.* INTO w;
    v_places[i] := w;
    CONTINUE WHEN w.ticket < 0;
    r := {first}(l, p_id, v_now); l := r.l;
    IF w.id IS NOT NULL AND NOT (v_is_changed[i] OR r.is_changed) THEN
      v_is_next := v_is_next AND coalesce((r.w).id = p_id, false) AND {fits}(l, p_mode, p_permits, p_limit);
    ELSIF w.id IS NOT NULL THEN
      r := {settle}(l, p_id, v_now); l := r.l;
      v_is_next := v_is_next AND r.is_mine;
    ELSE
      IF v_is_changed[i] OR r.is_changed THEN
        r := {settle}(l, NULL, v_now); l := r.l;
        r := {first}(l, NULL, v_now); l := r.l;
      END IF;
      v_is_next := v_is_next AND (r.w).id IS NULL AND {fits}(l, p_mode, p_permits, p_limit);
    END IF;
    v_locks[i] := l;
  END LOOP;
  IF v_is_next THEN
    FOR i IN 1 .. cardinality(p_names) LOOP
      l := {leave}(v_locks[i], p_id);
      v_fence := greatest(l.last_fence + 1, (extract(epoch FROM v_now) * 1000000)::bigint);
      l.last_fence := v_fence + p_room;
      IF p_mode = 'x' THEN
        l.in_use := 1; l.mode := 'x'; l.permit_limit := 1; l.ends_at := v_ends; l.id := p_id;
          l.proc := p_proc; l.label := p_label;
        l.fence := v_fence; l.room := p_room; l.fence_used := v_fence; l.since_at := v_now;
          l.keep_until := v_keep;
        l.revoked := NULL; l.waiting_for := NULL;
      ELSE
        l := {add_counted}(l, p_id, p_proc, p_label, 'h', p_mode, p_permits, p_limit, v_fence, v_now, v_ends,
          v_keep);
      END IF;
      PERFORM {save}(l, v_now);
      v_answer := v_answer || ' ' || v_fence;
    END LOOP;
    RETURN v_answer;
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  IF p_queue THEN
    FOR i IN 1 .. cardinality(p_names) LOOP
      l := v_locks[i]; w := v_places[i];
      IF w.id IS NULL THEN
        l.last_ticket := l.last_ticket + 1; l.waiting := l.waiting + 1;
        IF l.waiting = 1 THEN l.head := l.last_ticket; END IF;
        v_locks[i] := l; w.ticket := l.last_ticket; w.since_at := v_now;
      END IF;
      v_again := least(v_again, {again_ms}(l, w.ticket, w.since_at, p_poll_ms, v_now));
      v_position := greatest(v_position, {position}(l, w.ticket));
    END LOOP;
    v_alive := v_now + (v_again + 1000) * interval '1 millisecond';
    FOR i IN 1 .. cardinality(p_names) LOOP
      l := v_locks[i]; w := v_places[i];
      IF w.id IS NULL THEN
        INSERT INTO {waiter} (name, ticket, id, proc, label, mode, permits, permit_limit, several, claim_ms,
          since_at, alive_until)
          VALUES (l.name, l.last_ticket, p_id, p_proc, p_label, p_mode, p_permits, p_limit,
            cardinality(p_names) > 1, p_claim_ms,
            v_now, v_alive);
        v_locks[i] := {sweep_queue}(l, v_now);
      ELSE
        UPDATE {waiter} AS t SET alive_until = v_alive, label = p_label WHERE t.name = w.name
          AND t.ticket = w.ticket;
      END IF;
    END LOOP;
  ELSE
    v_again := 250;
  END IF;
  FOR i IN 1 .. cardinality(p_names) LOOP
    l := v_locks[i];
    IF l IS DISTINCT FROM v_before[i] THEN PERFORM {save}(l, v_now); END IF;
  END LOOP;
  RETURN {busy}(p_names, v_again, v_position, v_now);
END
$$;

-- Looks at two waiters per newcomer, so that the dead do not pile up behind a live one.
CREATE OR REPLACE FUNCTION {sweep_queue}(l {lock}, p_now timestamptz) RETURNS {lock} LANGUAGE plpgsql AS $$
DECLARE v_from bigint := l.head + floor(random() * (l.last_ticket - l.head + 1)); v_count integer;
BEGIN
  IF l.waiting < 3 THEN RETURN l; END IF;
  DELETE FROM {waiter} AS t USING (SELECT o.ticket FROM {waiter} AS o WHERE o.name = l.name
    AND o.ticket >= v_from
    ORDER BY o.ticket LIMIT 2) AS two WHERE t.name = l.name AND t.ticket = two.ticket
      AND t.alive_until < p_now;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  l.waiting := l.waiting - v_count;
  RETURN l;
END
$$;

-- Takes a request out of the queue, and gives up the place that is reserved for it.
CREATE OR REPLACE FUNCTION {leave}(l {lock}, p_id text) RETURNS {lock} LANGUAGE plpgsql AS $$
DECLARE v_ticket bigint; v_permits integer;
BEGIN
  IF l.waiting = 0 THEN RETURN l; END IF;
  DELETE FROM {waiter} AS t WHERE t.id = p_id AND t.name = l.name RETURNING t.ticket INTO v_ticket;
  IF v_ticket IS NULL THEN RETURN l; END IF;
  l.waiting := l.waiting - 1;
  IF v_ticket = l.head THEN l.head := l.head + 1; END IF;
  IF v_ticket < 0 THEN
    DELETE FROM {holder} AS t WHERE t.name = l.name AND t.id = p_id AND t.state = 'r' RETURNING t.permits
      INTO v_permits;
    IF FOUND THEN l.in_use := l.in_use - v_permits; l.holders := l.holders - 1; END IF;
  END IF;
  RETURN l;
END
$$;

-- Ends a request: what it holds is released, its place is given up, and the next waiters are called.
-- p_used: the last fence of each key that was used, or null where nobody can say. p_mark: an attempt of it
-- has no answer.
-- Answers whether it held all keys.
CREATE OR REPLACE FUNCTION {end_request}(p_names bytea[], p_namespace text, p_keys bytea[], p_id text,
  p_used bigint[], p_mark boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE v_now timestamptz; l {lock}; h {holder}; r record; v_locks {lock}[]; v_is_held boolean := true;
  v_is_own boolean;
BEGIN
  FOR i IN 1 .. cardinality(p_names) LOOP
    v_locks[i] := {lock_row}(p_names[i], p_namespace, p_keys[i], p_mark);
  END LOOP;
  v_now := clock_timestamp();
  FOR i IN 1 .. cardinality(p_names) LOOP
    l := v_locks[i];
    IF l.name IS NULL THEN v_is_held := false; CONTINUE; END IF;
    IF p_mark THEN
      l.ended_until := v_now + interval '1 minute';
      INSERT INTO {ended} (id, name, until) VALUES (p_id, l.name, l.ended_until)
        ON CONFLICT (id, name) DO UPDATE SET until = excluded.until;
    END IF;
    r := {sweep}(l, v_now); l := r.l;
    v_is_own := l.in_use > 0 AND l.mode = 'x' AND coalesce(l.id = p_id, false);
    IF v_is_own THEN
      IF p_used[i] IS NOT NULL AND l.last_fence = l.fence + l.room THEN
        l.last_fence := least(l.last_fence, greatest(l.fence_used, p_used[i]));
      END IF;
      l := {remove_exclusive}(l, v_now);
    ELSIF l.in_use > 0 AND l.mode <> 'x' THEN
      SELECT t.* INTO h FROM {holder} AS t WHERE t.name = l.name AND t.id = p_id AND t.state IN ('h', 'v');
      v_is_own := FOUND;
      IF v_is_own THEN l := {remove_counted}(l, h, v_now); END IF;
    END IF;
    v_is_held := v_is_held AND v_is_own;
    l := {leave}(l, p_id);
    r := {settle}(l, NULL, v_now); l := r.l;
    IF l IS DISTINCT FROM v_locks[i] THEN PERFORM {save}(l, v_now); END IF;
  END LOOP;
  RETURN v_is_held;
END
$$;

-- As above, for one request.
CREATE OR REPLACE FUNCTION {release}(p_names bytea[], p_namespace text, p_keys bytea[], p_id text,
  p_used bigint[], p_mark boolean)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = 1500 AS $$
BEGIN
  RETURN {end_request}(p_names, p_namespace, p_keys, p_id, p_used, p_mark);
END
$$;

-- As above, for one key. Where it is held exclusively and nobody waits, one row is written, as by
-- release_free.sql.
CREATE OR REPLACE FUNCTION {release_one}(p_name bytea, p_id text, p_used bigint, p_namespace text,
  p_key bytea, p_mark boolean)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE v_now timestamptz := clock_timestamp();
BEGIN
  IF NOT p_mark THEN
    UPDATE {lock} AS t SET in_use = 0, id = NULL, changed_at = v_now,
      last_fence = CASE WHEN t.last_fence = t.fence + t.room
        THEN least(t.last_fence, greatest(t.fence_used, p_used)) ELSE t.last_fence END
    WHERE t.name = p_name AND t.id = p_id AND t.in_use = 1 AND t.mode = 'x' AND t.waiting = 0
      AND t.ends_at > v_now AND (t.keep_until IS NULL OR t.keep_until <= v_now)
      AND t.fence_used BETWEEN t.fence AND t.fence + t.room AND t.last_fence <= 9007199254740991;
    IF FOUND THEN RETURN true; END IF;
  END IF;
  RETURN {end_request}(ARRAY[p_name], p_namespace, ARRAY[p_key], p_id, ARRAY[p_used], p_mark);
END
$$;

-- Ends many requests, whose fences nobody knows. p_items: per name the request that it belongs to, counted
-- from 1.
-- Answers per request 'd' done, 'x' its row is damaged, 'f' failed.
CREATE OR REPLACE FUNCTION {abandon}(p_names bytea[], p_namespace text, p_keys bytea[], p_items integer[],
  p_ids text[],
  p_marks boolean[])
RETURNS text LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = 200 AS $$
DECLARE v_answer text := '';
BEGIN
  FOR i IN 1 .. cardinality(p_ids) LOOP
    BEGIN
      PERFORM {end_request}(ARRAY(SELECT p_names[n] FROM generate_subscripts(p_names, 1) AS n
        WHERE p_items[n] = i ORDER BY n),
        p_namespace, ARRAY(SELECT p_keys[n] FROM generate_subscripts(p_names, 1) AS n WHERE p_items[n] = i
          ORDER BY n),
        p_ids[i], NULL, p_marks[i]);
      v_answer := v_answer || 'd';
    EXCEPTION
      WHEN SQLSTATE 'HF001' THEN v_answer := v_answer || 'x';
      WHEN OTHERS THEN v_answer := v_answer || 'f';
    END;
  END LOOP;
  RETURN v_answer;
END
$$;

-- Renews many requests, never to an earlier end. A row that somebody else has locked is skipped, so that it
-- keeps no other waiting.
-- p_items: per name the request that it belongs to. p_used: per name the fence in use. The rest is per
-- request.
-- Answers an array: 'r' renewed, 'g' gone, 'v' and the reason revoked, 'l' locked, 'd' damaged. And the
-- server's time.
CREATE OR REPLACE FUNCTION {renew}(p_names bytea[], p_items integer[], p_used bigint[], p_ids text[],
  p_lasts_us bigint[],
  p_labels text[])
RETURNS text[] LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE v_now timestamptz := clock_timestamp(); v_answers text[] := '{}'; v_item integer; v_answer text;
  l {lock}; h {holder};
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
  FOR i IN 1 .. cardinality(p_names) LOOP
    v_item := p_items[i];
    v_answer := coalesce(v_answers[v_item], 'r');
    SELECT t.* INTO l FROM {lock} AS t WHERE t.name = p_names[i] AND t.id = p_ids[v_item] AND t.mode = 'x'
      AND t.in_use > 0
      FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      IF {is_damaged}(l) THEN v_answer := 'd';
      ELSIF l.ends_at <= v_now THEN v_answer := 'g';
      ELSIF l.revoked IS NOT NULL AND v_answer = 'r' THEN v_answer := 'v ' || l.revoked; END IF;
    ELSE
      SELECT t.* INTO h FROM {holder} AS t WHERE t.name = p_names[i] AND t.id = p_ids[v_item]
        AND t.state IN ('h', 'v')
        FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        IF h.ends_at <= v_now THEN v_answer := 'g';
        ELSIF h.state = 'v' AND v_answer = 'r' THEN v_answer := 'v ' || h.revoked; END IF;
      ELSIF EXISTS (SELECT FROM {lock} AS t WHERE t.name = p_names[i] AND t.id = p_ids[v_item])
        OR EXISTS (SELECT FROM {holder} AS t WHERE t.name = p_names[i] AND t.id = p_ids[v_item]
          AND t.state IN ('h', 'v')) THEN
        IF v_answer <> 'g' THEN v_answer := 'l'; END IF;
      ELSE
        v_answer := 'g';
      END IF;
    END IF;
    v_answers[v_item] := v_answer;
  END LOOP;
  FOR i IN 1 .. cardinality(p_names) LOOP
    v_item := p_items[i];
    CONTINUE WHEN v_answers[v_item] <> 'r';
    UPDATE {lock} AS t SET ends_at = greatest(t.ends_at, v_now + p_lasts_us[v_item] * interval
      '1 microsecond'),
      fence_used = greatest(t.fence_used, least(p_used[i], t.fence + t.room)), label = p_labels[v_item]
      WHERE t.name = p_names[i] AND t.id = p_ids[v_item];
    CONTINUE WHEN FOUND;
    UPDATE {holder} AS t SET ends_at = greatest(t.ends_at, v_now + p_lasts_us[v_item] * interval
      '1 microsecond'),
      label = p_labels[v_item] WHERE t.name = p_names[i] AND t.id = p_ids[v_item];
  END LOOP;
  RETURN v_answers || (extract(epoch FROM v_now) * 1000)::text;
END
$$;

CREATE OR REPLACE FUNCTION {owns}(p_names bytea[], p_id text) RETURNS boolean LANGUAGE plpgsql
  SET enable_seqscan = off SET lock_timeout = 1500 AS $$
BEGIN
  RETURN cardinality(p_names) = (SELECT count({refuse_damaged}(t)) FROM {lock} AS t
    WHERE t.name = ANY (p_names) AND t.mode = 'x'
      AND t.in_use > 0 AND t.id = p_id AND t.ends_at > clock_timestamp() AND t.revoked IS NULL)
    + (SELECT count(*) FROM {holder} AS t WHERE t.name = ANY (p_names) AND t.id = p_id AND t.state = 'h'
      AND t.ends_at > clock_timestamp());
END
$$;

-- Writes down what a holder waits for.
CREATE OR REPLACE FUNCTION {note}(p_names bytea[], p_id text, p_waiting_for bytea) RETURNS void
  LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = 1500 AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE {holder} AS t SET waiting_for = p_waiting_for WHERE t.name = ANY (p_names) AND t.id = p_id
    AND t.state IN ('h', 'v');
  PERFORM FROM {lock} AS t WHERE t.name = ANY (p_names) AND t.id = p_id ORDER BY t.name FOR UPDATE;
  UPDATE {lock} AS t SET waiting_for = p_waiting_for WHERE t.name = ANY (p_names) AND t.id = p_id;
END
$$;

-- Answers 'revoked', 'free' or 'other-fence'.
CREATE OR REPLACE FUNCTION {revoke}(p_name bytea, p_fence bigint, p_reason text, p_force boolean) RETURNS text
  LANGUAGE plpgsql
SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE v_now timestamptz; l {lock}; v_before {lock}; h {holder}; r record; v_holders integer := 0;
  v_revoked integer := 0;
BEGIN
  l := {lock_row}(p_name, '', '', false);
  IF l.name IS NULL THEN RETURN 'free'; END IF;
  v_before := l;
  v_now := clock_timestamp();
  r := {sweep}(l, v_now); l := r.l;
  IF l.in_use > 0 AND l.mode = 'x' THEN
    v_holders := 1;
    IF p_fence IS NULL OR p_fence BETWEEN l.fence AND l.fence + l.room THEN
      v_revoked := 1;
      l.keep_until := NULL;
      IF l.id IS NOT NULL THEN PERFORM pg_notify('holdfast_' || l.proc,
        'revoked ' || l.id || ' ' || left(p_reason, 1000)); END IF;
      IF p_force OR l.id IS NULL THEN l := {remove_exclusive}(l, v_now); ELSE l.revoked := p_reason; END IF;
    END IF;
  ELSIF l.in_use > 0 THEN
    FOR h IN SELECT * FROM {holder} AS t WHERE t.name = l.name AND t.state <> 'r' ORDER BY t.ends_at, t.id
      FOR UPDATE LOOP
      v_holders := v_holders + 1;
      CONTINUE WHEN h.fence <> p_fence;
      v_revoked := v_revoked + 1;
      IF h.state <> 'k' THEN PERFORM pg_notify('holdfast_' || h.proc,
        'revoked ' || h.id || ' ' || left(p_reason, 1000)); END IF;
      h.keep_until := NULL;
      IF p_force OR h.state = 'k' THEN l := {remove_counted}(l, h, v_now);
      ELSE UPDATE {holder} AS t SET state = 'v', revoked = p_reason, keep_until = NULL WHERE t.name = h.name
        AND t.id = h.id; END IF;
    END LOOP;
  END IF;
  r := {settle}(l, NULL, v_now); l := r.l;
  IF l IS DISTINCT FROM v_before THEN PERFORM {save}(l, v_now); END IF;
  RETURN CASE WHEN v_revoked > 0 THEN 'revoked' WHEN v_holders > 0 THEN 'other-fence' ELSE 'free' END;
END
$$;

-- A key for people: limit, holders, waiters (label, mode, permits, ms waited). Null when nobody holds it or
-- waits for it.
CREATE OR REPLACE FUNCTION {describe}(l {lock}, p_now timestamptz) RETURNS jsonb LANGUAGE plpgsql
  SET enable_seqscan = off AS $$
DECLARE v_holders jsonb := {show_holders}(l, NULL, p_now); v_waiters jsonb; v_limit integer;
BEGIN
  SELECT jsonb_agg(jsonb_build_array(t.label, t.mode::text, t.permits, extract(epoch
    FROM p_now - t.since_at) * 1000)
    ORDER BY abs(t.ticket)), max(t.permit_limit) INTO v_waiters, v_limit
    FROM {waiter} AS t WHERE t.name = l.name AND t.alive_until >= p_now;
  IF v_holders = '[]' AND v_waiters IS NULL THEN RETURN NULL; END IF;
  RETURN jsonb_build_array(greatest(CASE WHEN v_holders = '[]' THEN 1
    ELSE l.permit_limit END, v_limit), v_holders,
    coalesce(v_waiters, '[]'));
END
$$;

CREATE OR REPLACE FUNCTION {inspect}(p_name bytea) RETURNS jsonb LANGUAGE plpgsql
  SET enable_seqscan = off SET lock_timeout = 1500 AS $$
DECLARE l {lock};
BEGIN
  SELECT t.* INTO l FROM {lock} AS t WHERE t.name = p_name;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM {refuse_damaged}(l);
  RETURN {describe}(l, clock_timestamp());
END
$$;

-- A key for the transaction of the caller, which keeps its row locked until it ends. A row that is locked
-- already is an error.
-- Answers 'g fence', 'b holders', or null where there is no row.
CREATE OR REPLACE FUNCTION {transaction}(p_name bytea) RETURNS text LANGUAGE plpgsql
  SET enable_seqscan = off AS $$
DECLARE v_now timestamptz; l {lock}; v_holders jsonb; v_fence bigint;
BEGIN
  SELECT t.* INTO l FROM {lock} AS t WHERE t.name = p_name FOR UPDATE NOWAIT;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM {refuse_damaged}(l);
  v_now := clock_timestamp();
  IF l.in_use > 0 THEN v_holders := {show_holders}(l, 3, v_now); END IF;
  IF v_holders <> '[]' THEN RETURN 'b ' || v_holders::text; END IF;
  v_fence := greatest(l.last_fence + 1, (extract(epoch FROM v_now) * 1000000)::bigint);
  UPDATE {lock} AS t SET last_fence = v_fence, changed_at = v_now WHERE t.name = p_name;
  RETURN 'g ' || v_fence;
END
$$;

-- Deletes rows that nobody has used for so long, 10,000 at a time, and raises the floor of the fences in the
-- same step. A key that is
-- made again meanwhile waits for this step, and then reads the floor. Answers how many rows there were.
CREATE OR REPLACE FUNCTION {clean}(p_age interval) RETURNS integer LANGUAGE plpgsql
  SET enable_seqscan = on SET lock_timeout = 1500 AS $$
DECLARE v_now timestamptz := clock_timestamp(); v_count integer;
BEGIN
  -- One process at a time.
  IF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast: clean ' || '{lock}', 0)) THEN RETURN 0; END IF;
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM {ended} AS t WHERE t.until < v_now;
  WITH old AS MATERIALIZED (SELECT t.name, t.namespace, t.last_fence FROM {lock} AS t
      WHERE t.changed_at < v_now - p_age AND t.ended_until < v_now
        AND (t.in_use = 0 OR (t.ends_at < v_now - p_age AND coalesce(t.keep_until < v_now, true)))
          AND NOT {is_damaged}(t)
        AND NOT EXISTS (SELECT FROM {holder} AS h WHERE h.name = t.name
          AND greatest(h.ends_at, h.keep_until) > v_now - p_age)
        AND NOT EXISTS (SELECT FROM {waiter} AS w WHERE w.name = t.name AND w.alive_until > v_now - p_age)
      LIMIT 10000 FOR UPDATE OF t SKIP LOCKED),
    floors AS (INSERT INTO {meta} AS m (name, value) SELECT 'floor:' || old.namespace, max(old.last_fence)
      FROM old
      GROUP BY old.namespace ON CONFLICT (name) DO UPDATE SET value = greatest(m.value, excluded.value)),
    holders AS (DELETE FROM {holder} AS h USING old WHERE h.name = old.name),
    waiters AS (DELETE FROM {waiter} AS w USING old WHERE w.name = old.name),
    locks AS (DELETE FROM {lock} AS t USING old WHERE t.name = old.name)
    SELECT count(*) INTO v_count FROM old;
  RETURN v_count;
END
$$;
