-- The letters for an opened store, in the order of their leaving. proc.
SELECT id, words FROM holdfast_push WHERE proc = ? ORDER BY sent_us, id LIMIT 100
