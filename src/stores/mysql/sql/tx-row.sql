-- The row of a key, locked for the caller's transaction; no row where somebody else is changing it. name.
SELECT t.name, t.version, t.holder, t.proc, t.label, t.actor, t.fence, t.room, t.used, t.since_us, t.ends_us, t.last, t.marks, t.record
FROM holdfast_lock AS t WHERE t.name = ? FOR UPDATE SKIP LOCKED
