-- Stores a session; no row when the id exists. `most` is how many the subject may have, 0 for any number.
CREATE FUNCTION create_session(
    in_id_hash text, in_subject text, in_email text, in_roles text[], idle_ms bigint, age_ms bigint, most bigint
) RETURNS TABLE (created_ms bigint, idle_end_ms bigint, end_ms bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint;
BEGIN
    -- Logins of one subject one after the other: each sees what the others stored.
    PERFORM pg_advisory_xact_lock(hashtextextended(in_subject, 1));
    now := now_ms();
    DELETE FROM sessions s WHERE s.id_hash = in_id_hash AND least(s.idle_end_ms, s.end_ms) <= now;
    RETURN QUERY
        INSERT INTO sessions AS s
            (id_hash, subject, email, roles, created_ms, touched_ms, idle_end_ms, end_ms)
        VALUES
            (in_id_hash, in_subject, in_email, in_roles, now, now, now + least(idle_ms, age_ms), now + age_ms)
        ON CONFLICT DO NOTHING
        RETURNING s.created_ms, s.idle_end_ms, s.end_ms;
    IF FOUND AND most > 0 THEN
        DELETE FROM sessions WHERE id_hash IN (
            SELECT s.id_hash FROM sessions s
            WHERE s.subject = in_subject AND s.idle_end_ms > now AND s.id_hash <> in_id_hash
            ORDER BY s.place DESC OFFSET most - 1
        );
    END IF;
END
$$
