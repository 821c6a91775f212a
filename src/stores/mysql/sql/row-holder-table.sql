-- Row mode: who holds a row, for people and for fences. The row with the empty slot belongs to the key: it has the
-- largest fence given out, and the exclusive holder if there is one. Readers have rows of their own.
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
