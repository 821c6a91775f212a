-- Deletes letters that nobody has fetched.
DELETE FROM holdfast_push WHERE sent_us < {now} - 600000000 LIMIT 500
