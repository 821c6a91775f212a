-- Renews many leases.
SELECT to_json({renew}($1, $2, $3, $4, $5, $6))::text AS answer
