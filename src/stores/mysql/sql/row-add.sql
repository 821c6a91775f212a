-- Makes the row of a key, if nobody was quicker. Looks first, because an insert would wait for whoever has locked the row.
-- hash, namespace, name, hash.
INSERT IGNORE INTO holdfast_row (hash, namespace, name)
SELECT ?, ?, ? FROM (SELECT 1 AS one) AS c WHERE NOT EXISTS (SELECT 1 FROM holdfast_row AS t WHERE t.hash = ?)
