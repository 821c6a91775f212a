-- The primary was seen, at most twice a second. server.
UPDATE holdfast_primary SET seen_us = {now} WHERE server = ? AND seen_us < {now} - 500000
