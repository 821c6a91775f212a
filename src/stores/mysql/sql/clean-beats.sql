-- Deletes heartbeats of nobody.
DELETE FROM holdfast_beat WHERE seen_us < {now} - 600000000 LIMIT 500
