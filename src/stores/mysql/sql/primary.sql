-- Whether this server is still the primary. A fragment: {primary} in other files stands for it. server.
(SELECT p.server FROM holdfast_primary AS p ORDER BY p.since_us DESC, p.server DESC LIMIT 1) = ?
