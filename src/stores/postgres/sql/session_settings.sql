-- As settings, for session locks.
SELECT current_setting('server_version_num') AS version,
  current_setting('server_encoding') AS encoding,
  pg_is_in_recovery()::text AS standby,
  current_setting('transaction_read_only') AS read_only,
  current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('synchronous_standby_names') AS standby_names,
  (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup')::text AS standbys,
  (to_regclass('{fences}') IS NOT NULL AND to_regclass('{sessions}') IS NOT NULL)::text AS ready,
  current_setting('max_connections') AS max_connections,
  current_schema() AS schema
