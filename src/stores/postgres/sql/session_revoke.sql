-- Marks holders as revoked and tells their processes.
-- $1 ids, $2 reason, $3 channels, $4 words
WITH r AS (UPDATE {sessions} SET revoked = $2 WHERE id = ANY ($1::text[]) RETURNING 1)
SELECT (SELECT count(*) FROM r)::text AS revoked,
  (SELECT count(pg_notify(p.channel, p.words)) FROM unnest($3::text[], $4::text[]) AS p (channel,
    words)) AS told
