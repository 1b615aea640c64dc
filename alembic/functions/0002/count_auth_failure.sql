-- Counts a failure of an address unless `most` are in the window; 0, or how long until the next may be judged.
CREATE FUNCTION count_auth_failure(in_address text, most bigint, window_ms bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    waits bigint;
BEGIN
    -- Failures of one address one after the other: each sees those before it.
    PERFORM pg_advisory_xact_lock(hashtextextended(in_address, 4));
    now := now_ms();
    waits := auth_failure_wait(in_address, most, window_ms);
    IF waits > 0 THEN
        RETURN waits;
    END IF;
    -- A few of those that are over, so that they go faster than new ones come.
    DELETE FROM auth_failures WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM auth_failures WHERE end_ms <= now AND address <> in_address
            ORDER BY end_ms LIMIT 3 FOR UPDATE SKIP LOCKED));
    INSERT INTO auth_failures AS f (address, times, end_ms) VALUES (in_address, ARRAY[now], now + window_ms)
        ON CONFLICT (address) DO UPDATE SET end_ms = excluded.end_ms, times = excluded.times || ARRAY(
            SELECT t FROM unnest(f.times) t WHERE t > now - window_ms AND t < now + window_ms);
    RETURN 0;
END
$$
