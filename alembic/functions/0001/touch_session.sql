-- Extends a session; no row when it is over.
CREATE FUNCTION touch_session(in_id_hash text, idle_ms bigint) RETURNS TABLE (
    id_hash text, subject text, email text, roles text[], created_ms bigint, touched_ms bigint, idle_end_ms bigint,
    end_ms bigint, now bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    told bigint := now_ms();
BEGIN
    RETURN QUERY
        UPDATE sessions s SET touched_ms = told, idle_end_ms = least(told + idle_ms, s.end_ms)
        WHERE s.id_hash = in_id_hash AND s.idle_end_ms > told
        RETURNING s.id_hash, s.subject, s.email, s.roles, s.created_ms, s.touched_ms, s.idle_end_ms, s.end_ms, told;
END
$$
