-- Changes a row that nobody has changed since it was read.
-- holder, proc, label, host, process, actor, fence, room, used, since_us, ends_us, over_us, last, marks, record, name, version, server
UPDATE holdfast_lock SET version = version + 1, holder = ?, proc = ?, label = ?, host = ?, process = ?, actor = ?, fence = ?, room = ?,
  used = ?, since_us = ?, ends_us = ?, over_us = ?, last = ?, marks = ?, record = ?
WHERE name = ? AND version = ? AND {primary}
