-- What the functions set for themselves, for a session of our own: plain statements then do as well.
SELECT set_config('enable_seqscan', 'off', false), set_config('lock_timeout', '1500', false),
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), false)
