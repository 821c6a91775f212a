-- Makes empty rows for keys that have none.
-- $1 names, $2 namespace, $3 keys
WITH {clock}
INSERT INTO {locks} (name, namespace, key, version, over_at, last, marks)
SELECT n.name, $2, n.key, 1, c.now, 0, '{}' FROM c, unnest($1::bytea[], $3::bytea[]) AS n (name, key) ORDER BY n.name
ON CONFLICT (name) DO NOTHING
