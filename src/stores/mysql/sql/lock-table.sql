-- The lease table: one row per key. name is the SHA-256 of namespace, a zero byte and key, because an index has no room for the
-- longest keys and no collation may decide which are equal. holder to ends_at tell of the (first) holder and are for people
-- too; record holds everything where they do not suffice. Times are microseconds since 1970 by the server's clock.
CREATE TABLE IF NOT EXISTS holdfast_lock (
  name BINARY(32) NOT NULL PRIMARY KEY,
  namespace VARBINARY(1024) NOT NULL,
  lock_key VARBINARY(4096) NOT NULL,
  version BIGINT NOT NULL,
  holder VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  label VARCHAR(1024) CHARACTER SET utf8mb4 NULL,
  host VARCHAR(255) CHARACTER SET utf8mb4 NULL,
  process VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  actor VARCHAR(1024) CHARACTER SET utf8mb4 NULL,
  proc VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NULL,
  fence BIGINT NULL,
  room BIGINT NULL,
  used BIGINT NULL,
  since_us BIGINT NULL,
  ends_us BIGINT NULL,
  since_at DATETIME(6) AS (TIMESTAMPADD(MICROSECOND, since_us, '1970-01-01')) VIRTUAL,
  ends_at DATETIME(6) AS (TIMESTAMPADD(MICROSECOND, ends_us, '1970-01-01')) VIRTUAL,
  over_us BIGINT NOT NULL,
  last BIGINT NOT NULL,
  marks TEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  record LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NULL,
  KEY holdfast_lock_names (namespace(64), lock_key(255)),
  KEY holdfast_lock_over (over_us)
) ENGINE=InnoDB
