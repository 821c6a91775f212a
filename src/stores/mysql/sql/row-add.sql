-- Makes the row of a key, if nobody was quicker. hash, namespace, name.
INSERT IGNORE INTO holdfast_row (hash, namespace, name) VALUES (?, ?, ?)
