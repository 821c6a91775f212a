-- The tables of holdfast 0.1 and 0.2 ({old_locks}) and the new ones do not exclude each other. While a lock
-- of the old table is
-- held or waited for, this fails. Afterwards it fails every process that still uses the old table.
CREATE OR REPLACE FUNCTION {refuse_old}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'another process uses a later version of holdfast, with other tables: upgrade this one too'
    USING ERRCODE = 'HF022';
END
$$;
DO $$
BEGIN
  IF to_regclass('{old_locks}') IS NULL
    OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass('{old_locks}')
      AND tgname = 'holdfast_refuse_old') THEN RETURN; END IF;
  LOCK TABLE {old_locks} IN SHARE ROW EXCLUSIVE MODE;
  IF EXISTS (SELECT FROM {old_locks} WHERE over_at BETWEEN clock_timestamp()
    AND clock_timestamp() + interval '1 year'
    AND (holder IS NOT NULL OR record IS NOT NULL)) THEN
    RAISE EXCEPTION 'locks of an earlier version of holdfast are still held' USING ERRCODE = 'HF022';
  END IF;
  UPDATE {meta} AS m SET value = greatest(m.value, (SELECT max(last) FROM {old_locks}
    WHERE last <= 9007199254740991))
    WHERE m.name = 'floor:';
  CREATE TRIGGER holdfast_refuse_old BEFORE INSERT OR UPDATE ON {old_locks}
    FOR EACH ROW EXECUTE FUNCTION {refuse_old}();
END
$$;
