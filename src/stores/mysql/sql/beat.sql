-- A waiter is seen now. name, id, seq.
INSERT INTO holdfast_beat (name, id, seq, seen_us) VALUES (?, ?, ?, {now})
ON DUPLICATE KEY UPDATE seq = GREATEST(seq, VALUES(seq)), seen_us = GREATEST(seen_us, VALUES(seen_us))
