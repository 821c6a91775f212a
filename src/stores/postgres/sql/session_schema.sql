-- What session locks write down: the fences, and who holds what. The locks themselves live in the server's
-- memory.
-- name is the SHA-256 of namespace, a zero byte and key, lock its first eight bytes. The row with an empty
-- name holds the floor.
CREATE TABLE IF NOT EXISTS {fences} (
  name bytea PRIMARY KEY,
  lock bigint NOT NULL,
  last bigint NOT NULL,
  drawn_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {sessions} (
  id text PRIMARY KEY,
  pid integer NOT NULL,
  lock bigint NOT NULL,
  namespace text NOT NULL,
  key bytea NOT NULL,
  proc text NOT NULL,
  host text NOT NULL,
  process text NOT NULL,
  label text NOT NULL,
  actor text NOT NULL,
  mode text NOT NULL,
  fence bigint NOT NULL,
  room bigint NOT NULL,
  used bigint NOT NULL,
  since_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  lasts_us bigint NOT NULL,
  waiting_for bytea,
  revoked text
) WITH (fillfactor = 50);
