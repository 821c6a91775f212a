-- What one opened store has to tell another: a letter box; the bell is rung by other means.
CREATE TABLE IF NOT EXISTS holdfast_push (
  proc VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  id VARCHAR(48) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  words TEXT CHARACTER SET utf8mb4 NOT NULL,
  sent_us BIGINT NOT NULL,
  PRIMARY KEY (proc, id)
) ENGINE=InnoDB
