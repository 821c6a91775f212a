-- Writes a reader down. hash, slot, namespace, name, fence, fence, session, proc, process, actor, label, idle_ms.
INSERT INTO holdfast_row_holder
  (hash, slot, namespace, name, last, fence, used, session, proc, process, actor, label, idle_ms, since)
VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))
