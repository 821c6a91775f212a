-- The tables of the lease table, version 1. Later versions only add columns with defaults. Times are
-- microseconds since 1970 by the server's clock. No column that changes with every lock has an index, apart
-- from over_us, which is kept to ten minutes.

-- One row per key. name is the SHA-256 of namespace and key, because an index has no room for the longest
-- keys and no collation may decide which are equal. fence: the largest that may have been used. mode: x one
-- exclusive holder, which is in this row; s readers and p permits of a semaphore, which are in
-- holdfast_holders. used: permits in use. ends_us: the end of the holder, or the earliest end of many. size:
-- the largest limit. holder is NULL while only keep_us holds the key. ended_us: until then the key has rows
-- in holdfast_ended. over_us: by then all of it is over.
-- :name table_locks
CREATE TABLE IF NOT EXISTS holdfast_locks (
  name BINARY(32) NOT NULL PRIMARY KEY,
  namespace VARBINARY(64) NOT NULL,
  lock_key VARBINARY(4096) NOT NULL,
  fence BIGINT NOT NULL,
  mode CHAR(1) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'x',
  used INT NOT NULL DEFAULT 0,
  size INT NOT NULL DEFAULT 1,
  ends_us BIGINT NOT NULL DEFAULT 0,
  waiting INT NOT NULL DEFAULT 0,
  ticket BIGINT NOT NULL DEFAULT 0,
  head BIGINT NOT NULL DEFAULT 0,
  ended_us BIGINT NOT NULL DEFAULT 0,
  over_us BIGINT NOT NULL,
  holder CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  store VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  label VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  actor VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  first_fence BIGINT NOT NULL DEFAULT 0,
  room BIGINT NOT NULL DEFAULT 0,
  used_fence BIGINT NOT NULL DEFAULT 0,
  since_us BIGINT NOT NULL DEFAULT 0,
  keep_us BIGINT NOT NULL DEFAULT 0,
  revoked TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  waiting_for VARBINARY(4096) NULL,
  since_at DATETIME(6) AS (TIMESTAMPADD(MICROSECOND, since_us, '1970-01-01')) VIRTUAL,
  ends_at DATETIME(6) AS (TIMESTAMPADD(MICROSECOND, ends_us, '1970-01-01')) VIRTUAL,
  KEY holdfast_locks_keys (namespace, lock_key(255)),
  KEY holdfast_locks_over (over_us)
) ENGINE=InnoDB

-- Readers and permits. kept: without an owner, because the key must stay taken until ends_us.
-- :name table_holders
CREATE TABLE IF NOT EXISTS holdfast_holders (
  name BINARY(32) NOT NULL,
  id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  store VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  label VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  actor VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  shared TINYINT NOT NULL,
  permits INT NOT NULL,
  fence BIGINT NOT NULL,
  used_fence BIGINT NOT NULL,
  since_us BIGINT NOT NULL,
  ends_us BIGINT NOT NULL,
  keep_us BIGINT NOT NULL,
  kept TINYINT NOT NULL DEFAULT 0,
  revoked TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  waiting_for VARBINARY(4096) NULL,
  PRIMARY KEY (name, id)
) ENGINE=InnoDB

-- The queue of a key, in the order of the tickets. alive_us: the waiter attempts again before that, or is
-- passed over. called_us: when it was told that it is its turn; alive_us is then the end of its reservation.
-- claim_us: how long a reservation lasts. listens: its store has a session that can be woken.
-- :name table_waiters
CREATE TABLE IF NOT EXISTS holdfast_waiters (
  name BINARY(32) NOT NULL,
  ticket BIGINT NOT NULL,
  id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  store VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  label VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  shared TINYINT NOT NULL,
  permits INT NOT NULL,
  size INT NOT NULL,
  since_us BIGINT NOT NULL,
  alive_us BIGINT NOT NULL,
  called_us BIGINT NOT NULL DEFAULT 0,
  claim_us BIGINT NOT NULL,
  listens TINYINT NOT NULL,
  PRIMARY KEY (name, ticket),
  UNIQUE KEY holdfast_waiters_ids (name, id),
  KEY holdfast_waiters_called (store, called_us)
) ENGINE=InnoDB

-- Requests that ended while an attempt of theirs was unanswered: should it arrive, it changes nothing.
-- :name table_ended
CREATE TABLE IF NOT EXISTS holdfast_ended (
  id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name BINARY(32) NOT NULL,
  until_us BIGINT NOT NULL,
  PRIMARY KEY (id, name),
  KEY holdfast_ended_until (until_us)
) ENGINE=InnoDB

-- Holders that were revoked, until their store has read it.
-- :name table_revocations
CREATE TABLE IF NOT EXISTS holdfast_revocations (
  store VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  until_us BIGINT NOT NULL,
  PRIMARY KEY (store, id)
) ENGINE=InnoDB

-- Per namespace the largest fence of any row that was cleaned away.
-- :name table_floors
CREATE TABLE IF NOT EXISTS holdfast_floors (
  namespace VARBINARY(64) NOT NULL PRIMARY KEY,
  floor BIGINT NOT NULL
) ENGINE=InnoDB

-- Which server grants locks: the one with the newest claim. Each server's clients write its own row only, so
-- that two servers that replicate both ways never disagree about a row. ready_us: before that time it grants
-- nothing.
-- :name table_primary
CREATE TABLE IF NOT EXISTS holdfast_primary (
  server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  since_us BIGINT NOT NULL,
  ready_us BIGINT NOT NULL,
  seen_us BIGINT NOT NULL,
  started_us BIGINT NOT NULL,
  hold_ms BIGINT NOT NULL
) ENGINE=InnoDB

-- The version of tables and procedures. Written last.
-- :name table_meta
CREATE TABLE IF NOT EXISTS holdfast_meta (
  id TINYINT NOT NULL PRIMARY KEY,
  version INT NOT NULL
) ENGINE=InnoDB

-- :name set_version
INSERT INTO holdfast_meta (id, version) VALUES (1, 1) ON DUPLICATE KEY UPDATE version = GREATEST(version, 1)

-- Versions 0.1 and 0.2 kept their locks in a table of this name. One without their columns makes every
-- statement of theirs fail, so that they grant nothing beside this version.
-- :name table_old
CREATE TABLE IF NOT EXISTS holdfast_lock (
  replaced TINYINT NOT NULL PRIMARY KEY COMMENT 'this version keeps its locks in holdfast_locks'
) ENGINE=InnoDB

-- Locks of version 0.1 and 0.2 that may be live. Fails once their table is replaced.
-- :name count_old_locks
SELECT COUNT(*) AS locks FROM holdfast_lock
WHERE (record IS NULL AND holder IS NOT NULL AND ends_us > {now}) OR (record IS NOT NULL AND over_us > {now})

-- :name set_old_aside
RENAME TABLE holdfast_lock TO holdfast_lock_before

-- :name drop_aside
DROP TABLE IF EXISTS holdfast_lock_before

-- :name put_old_back
RENAME TABLE holdfast_lock_before TO holdfast_lock

-- :name count_locks_aside
SELECT COUNT(*) AS locks FROM holdfast_lock_before
WHERE (record IS NULL AND holder IS NOT NULL AND ends_us > {now}) OR (record IS NOT NULL AND over_us > {now})

-- Row mode: the rows that are locked. Nothing in them ever changes.
-- :name table_row
CREATE TABLE IF NOT EXISTS holdfast_row (
  hash BINARY(32) NOT NULL PRIMARY KEY,
  namespace VARBINARY(1024) NOT NULL,
  name VARBINARY(4096) NOT NULL
) ENGINE=InnoDB

-- Row mode: who holds a row, for people and for fences. The row with the empty slot belongs to the key: it
-- has the largest fence given out, and the exclusive holder if there is one. Readers have rows of their own.
-- :name table_row_holder
CREATE TABLE IF NOT EXISTS holdfast_row_holder (
  hash BINARY(32) NOT NULL,
  slot VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  namespace VARBINARY(1024) NOT NULL,
  name VARBINARY(4096) NOT NULL,
  last BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  used BIGINT NOT NULL,
  session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  proc VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  process VARCHAR(512) CHARACTER SET utf8mb4 NULL,
  actor VARCHAR(512) CHARACTER SET utf8mb4 NULL,
  label TEXT CHARACTER SET utf8mb4 NULL,
  since DATETIME(6) NULL,
  idle_ms BIGINT NULL,
  waiting_for VARBINARY(4096) NULL,
  revoked TEXT CHARACTER SET utf8mb4 NULL,
  PRIMARY KEY (hash, slot),
  KEY (proc)
) ENGINE=InnoDB
