CREATE FUNCTION read_decision(in_key bytea)
RETURNS TABLE (allow boolean, reason_code text, decided_ms bigint) LANGUAGE sql AS $$
    SELECT d.allow, d.reason_code, d.decided_ms FROM decisions d WHERE d.key = in_key AND d.end_ms > now_ms()
$$
