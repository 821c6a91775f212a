-- Raises the floor to the largest fence of the rows that have been over for ten minutes. Never lowers it.
-- Returns the floor.
WITH {clock}
INSERT INTO {locks} AS t (name, namespace, key, version, over_at, last, marks)
SELECT ''::bytea, '', ''::bytea, 1, 'infinity', coalesce((SELECT max(o.last) FROM {locks} AS o
  WHERE o.over_at < c.now - interval '10 minutes'), 0), '{}' FROM c
ON CONFLICT (name) DO UPDATE SET version = t.version + 1, last = greatest(t.last, excluded.last)
RETURNING last::text
