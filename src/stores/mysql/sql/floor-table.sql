-- The largest fence of any record that was cleared away. One row.
CREATE TABLE IF NOT EXISTS holdfast_floor (
  id TINYINT NOT NULL PRIMARY KEY,
  floor BIGINT NOT NULL
) ENGINE=InnoDB
