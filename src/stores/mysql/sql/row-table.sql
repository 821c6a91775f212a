-- Row mode: the rows that are locked. Nothing in them ever changes.
CREATE TABLE IF NOT EXISTS holdfast_row (
  hash BINARY(32) NOT NULL PRIMARY KEY,
  namespace VARBINARY(1024) NOT NULL,
  name VARBINARY(4096) NOT NULL
) ENGINE=InnoDB
