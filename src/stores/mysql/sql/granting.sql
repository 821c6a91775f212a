-- Whether this server may grant. A fragment: {granting} in other files stands for it. server.
(SELECT IF(p.ready_us <= {now}, p.server, '') FROM holdfast_primary AS p ORDER BY p.since_us DESC, p.server DESC LIMIT 1) = ?
