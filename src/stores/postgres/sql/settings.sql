-- Who this server is, whether it can be written to, and whether the tables and functions are there.
SELECT current_setting('server_version_num') AS version,
  current_setting('server_encoding') AS encoding,
  pg_is_in_recovery()::text AS standby,
  current_setting('transaction_read_only') AS read_only,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('synchronous_standby_names') AS standby_names,
  (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup')::text AS standbys,
  (SELECT string_agg(name || ' = ' || setting || unit, ', ' ORDER BY name) FROM pg_settings
    WHERE name IN ('statement_timeout', 'idle_session_timeout') AND setting <> '0') AS timeouts,
  (to_regclass('{meta}') IS NOT NULL AND to_regclass('{lock}') IS NOT NULL
    AND to_regclass('{holder}') IS NOT NULL
    AND to_regclass('{waiter}') IS NOT NULL AND to_regclass('{ended}') IS NOT NULL
    AND to_regproc('{attempt_one}') IS NOT NULL AND to_regproc('{refuse_old}') IS NOT NULL)::text AS ready,
  current_schema() AS schema
