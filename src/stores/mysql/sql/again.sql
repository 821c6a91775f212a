-- The primary was restarted and is the primary still. started_us, hold_ms, server.
UPDATE holdfast_primary SET started_us = ?, hold_ms = GREATEST(hold_ms, ?), seen_us = {now} WHERE server = ?
