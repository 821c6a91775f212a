-- What the lease table lives in. Asked for only where it is not there yet.
-- name is the SHA-256 of namespace, a zero byte and key, because an index has no room for the longest keys. The columns from
-- holder to ends_at tell of the (first) holder and are for people too; record holds everything where they do not suffice.
-- The row with an empty name holds the floor of all fences in last.
CREATE TABLE IF NOT EXISTS {locks} (
  name bytea PRIMARY KEY,
  namespace text NOT NULL,
  key bytea NOT NULL,
  version bigint NOT NULL,
  holder text,
  label text,
  host text,
  process text,
  actor text,
  proc text,
  fence bigint,
  room bigint,
  used bigint,
  since_at timestamptz,
  ends_at timestamptz,
  over_at timestamptz NOT NULL,
  last bigint NOT NULL,
  marks jsonb NOT NULL,
  record text
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {beats} (
  name bytea NOT NULL,
  id text NOT NULL,
  seq bigint NOT NULL,
  seen_at timestamptz NOT NULL,
  PRIMARY KEY (name, id)
) WITH (fillfactor = 50);
