-- Tables of the lease store, schema version 2. {lock} and its neighbours stand for the names of the tables.
-- Every change of a key locks its row in {lock} first. Only heartbeats, renewals of readers and notes do not.
CREATE TABLE IF NOT EXISTS {meta} (
  -- 'schema': the version of the tables. 'floor:' and a namespace: no deleted row had a larger fence.
  name text PRIMARY KEY,
  value bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS {lock} (
  -- SHA-256 of namespace, a zero byte and key: an index has no room for the longest keys.
  name bytea PRIMARY KEY,
  namespace text NOT NULL,
  key bytea NOT NULL,
  -- The largest fence that may have been used.
  last_fence bigint NOT NULL DEFAULT 0,
  -- Of the holders: x exclusive, s shared, p permits.
  mode "char" NOT NULL DEFAULT 'x',
  -- Permits that are held or reserved; 0 is free.
  in_use integer NOT NULL DEFAULT 0,
  -- Rows in {holder}.
  holders integer NOT NULL DEFAULT 0,
  -- The largest limit that a holder named.
  permit_limit integer NOT NULL DEFAULT 1,
  -- Nobody's lease ends before this.
  ends_at timestamptz NOT NULL DEFAULT '-infinity',
  -- Rows in {waiter}, the last ticket, and a ticket that no waiter in the queue is below.
  waiting integer NOT NULL DEFAULT 0,
  last_ticket bigint NOT NULL DEFAULT 0,
  head bigint NOT NULL DEFAULT 1,
  -- Until then {ended} may name requests for this key.
  ended_until timestamptz NOT NULL DEFAULT '-infinity',
  changed_at timestamptz NOT NULL,
  -- The exclusive holder. Its id is null while only keep_until keeps the key taken.
  id text,
  proc text,
  label text,
  fence bigint,
  room integer,
  fence_used bigint,
  since_at timestamptz,
  keep_until timestamptz,
  revoked text,
  waiting_for bytea
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);
CREATE TABLE IF NOT EXISTS {holder} (
  name bytea NOT NULL,
  id text NOT NULL,
  proc text NOT NULL,
  label text NOT NULL,
  -- h held, v revoked, k kept without an owner, r reserved for a waiter.
  state "char" NOT NULL,
  mode "char" NOT NULL,
  permits integer NOT NULL,
  fence bigint NOT NULL,
  since_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  keep_until timestamptz,
  revoked text,
  waiting_for bytea,
  PRIMARY KEY (name, id)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS {holder_ends} ON {holder} (name, ends_at);
CREATE TABLE IF NOT EXISTS {waiter} (
  name bytea NOT NULL,
  -- The order of the queue. Negative while a place is reserved in {holder}.
  ticket bigint NOT NULL,
  id text NOT NULL,
  proc text NOT NULL,
  label text NOT NULL,
  mode "char" NOT NULL,
  permits integer NOT NULL,
  permit_limit integer NOT NULL,
  -- It wants several keys at once.
  several boolean NOT NULL,
  claim_ms integer NOT NULL,
  since_at timestamptz NOT NULL,
  -- It promised to attempt again by then.
  alive_until timestamptz NOT NULL,
  -- The key is reserved for it until then. Once that has passed, the waiter is missed: it keeps its place and
  -- is passed over until it attempts again.
  called_until timestamptz,
  is_missed boolean NOT NULL DEFAULT false,
  PRIMARY KEY (name, ticket),
  UNIQUE (id, name)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS {ended} (
  -- A request that was released or abandoned while one of its attempts had no answer.
  id text NOT NULL,
  name bytea NOT NULL,
  until timestamptz NOT NULL,
  PRIMARY KEY (id, name)
);
CREATE OR REPLACE VIEW {overview} AS
  SELECT namespace, encode(key, 'escape') AS key, label, 'exclusive' AS mode, 1 AS permits,
    fence_used AS fence, since_at,
    ends_at, revoked FROM {lock} WHERE in_use > 0 AND mode = 'x'
  UNION ALL
  SELECT l.namespace, encode(l.key, 'escape'), h.label, CASE h.mode WHEN 's' THEN 'shared'
    ELSE 'permits' END, h.permits, h.fence,
    h.since_at, h.ends_at, h.revoked FROM {holder} AS h JOIN {lock} AS l ON l.name = h.name
      WHERE h.state <> 'r';
INSERT INTO {meta} (name, value) VALUES ('schema', 2), ('floor:', 0) ON CONFLICT (name) DO NOTHING;
