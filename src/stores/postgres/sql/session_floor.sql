-- Raises the floor to the largest fence of those that were drawn more than ten minutes ago. Never lowers it.
-- Returns the floor.
INSERT INTO {fences} AS t (name, lock, last, drawn_at)
SELECT ''::bytea, 0, coalesce((SELECT max(o.last) FROM {fences} AS o
  WHERE o.drawn_at < clock_timestamp() - interval '10 minutes'), 0), 'infinity'
ON CONFLICT (name) DO UPDATE SET last = greatest(t.last, excluded.last)
RETURNING last::text
