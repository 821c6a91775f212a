-- The last heartbeat of every waiter, beside the rows, so that a heartbeat never disturbs a change.
CREATE TABLE IF NOT EXISTS holdfast_beat (
  name BINARY(32) NOT NULL,
  id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq BIGINT NOT NULL,
  seen_us BIGINT NOT NULL,
  PRIMARY KEY (name, id)
) ENGINE=InnoDB
