-- The live ones among these sessions.
CREATE FUNCTION read_sessions(hashes text[]) RETURNS TABLE (
    id_hash text, subject text, email text, roles text[], created_ms bigint, touched_ms bigint, idle_end_ms bigint,
    end_ms bigint, now bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    told bigint := now_ms();
BEGIN
    RETURN QUERY
        SELECT s.id_hash, s.subject, s.email, s.roles, s.created_ms, s.touched_ms, s.idle_end_ms, s.end_ms, told
        FROM sessions s WHERE s.id_hash = ANY (hashes) AND s.idle_end_ms > told;
END
$$
