-- What is read of a row. A fragment: {columns} in other files stands for it.
t.name, t.version, t.holder, t.proc, t.label, t.actor, t.fence, t.room, t.used, t.since_us, t.ends_us, t.last, t.marks, t.record,
IF(t.record IS NULL, NULL, (SELECT JSON_ARRAYAGG(JSON_ARRAY(b.id, b.seq, b.seen_us)) FROM holdfast_beat AS b WHERE b.name = t.name)) AS beats
