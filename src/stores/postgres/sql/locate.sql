-- In which schemas of this database there is a table of this name, and where new tables go if there is none.
-- Asked of the catalog and not of search_path, which differs between roles and sessions.
-- $1 name of a table
-- Returns a row per schema, and at least one.
SELECT quote_ident(coalesce(current_schema(), 'public')) AS target, t.schema
FROM (SELECT 1) AS one LEFT JOIN (SELECT quote_ident(n.nspname) AS schema FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relname = $1 AND c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_(temp|toast)') AS t ON true
ORDER BY t.schema
