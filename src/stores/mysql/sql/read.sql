-- Rows, the floor, who is the primary and the time, as one statement saw them. {names} are as many question marks as names.
-- names. Returns at least one row.
SELECT {now} AS now_us, (SELECT f.floor FROM holdfast_floor AS f WHERE f.id = 1) AS floor, p.server AS primary_server,
  p.ready_us, {columns}
FROM (SELECT 1 AS one) AS c
LEFT JOIN (SELECT q.server, q.ready_us FROM holdfast_primary AS q ORDER BY q.since_us DESC, q.server DESC LIMIT 1) AS p ON TRUE
LEFT JOIN holdfast_lock AS t ON t.name IN ({names})
