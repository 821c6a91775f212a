-- Which server grants locks: the one with the newest claim. Each server's clients write its own row only, so that two servers
-- that replicate both ways never disagree about a row. ready_us: before that time it grants nothing.
CREATE TABLE IF NOT EXISTS holdfast_primary (
  server VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  since_us BIGINT NOT NULL,
  ready_us BIGINT NOT NULL,
  seen_us BIGINT NOT NULL,
  started_us BIGINT NOT NULL,
  hold_ms BIGINT NOT NULL
) ENGINE=InnoDB
