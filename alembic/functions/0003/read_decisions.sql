-- The stored ones among these decisions with their ages, then a row without a key that tells the time. One that was asked
-- for later than now is left out: the clock was set back since.
CREATE FUNCTION read_decisions(keys bytea[])
RETURNS TABLE (key bytea, allow boolean, reason_code text, age_ms bigint, told bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint := now_ms();
BEGIN
    RETURN QUERY
        SELECT d.key, d.allow, d.reason_code, now - d.decided_ms, now
        FROM decisions d WHERE d.key = ANY (keys) AND d.end_ms > now AND d.decided_ms <= now;
    RETURN QUERY SELECT NULL::bytea, NULL::boolean, NULL::text, NULL::bigint, now;
END
$$
