CREATE FUNCTION write_decision(in_key bytea, in_allow boolean, in_reason_code text, keep_ms bigint)
RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO decisions (key, allow, reason_code, decided_ms, end_ms)
        SELECT in_key, in_allow, in_reason_code, n, n + keep_ms FROM now_ms() n
        ON CONFLICT (key) DO UPDATE SET allow = excluded.allow, reason_code = excluded.reason_code,
            decided_ms = excluded.decided_ms, end_ms = excluded.end_ms
        RETURNING decided_ms
$$
