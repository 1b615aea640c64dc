-- Removes at most `most` rows of each table but budgets whose time is over; how many. Of sweeps at once, one works.
CREATE FUNCTION sweep(most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint := now_ms();
    removed bigint := 0;
    part bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.sweep', 3)) THEN
        RETURN 0;
    END IF;
    -- Rows in use are left for the next time: a request never waits for the sweep.
    DELETE FROM sessions WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM sessions WHERE idle_end_ms <= now LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS part = ROW_COUNT;
    removed := removed + part;
    DELETE FROM decisions WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM decisions WHERE end_ms <= now LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS part = ROW_COUNT;
    removed := removed + part;
    DELETE FROM heartbeats WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM heartbeats WHERE end_ms <= now LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS part = ROW_COUNT;
    removed := removed + part;
    DELETE FROM challenges WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM challenges WHERE end_ms <= now LIMIT most FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS part = ROW_COUNT;
    RETURN removed + part;
END
$$
