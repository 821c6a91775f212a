-- Every server that has been the primary, and the time.
SELECT c.now_us, p.server, p.since_us, p.ready_us, p.seen_us, p.started_us, p.hold_ms
FROM (SELECT {now} AS now_us) AS c LEFT JOIN holdfast_primary AS p ON TRUE
