-- Deletes every session of a subject; how many live ones there were.
CREATE FUNCTION delete_subject_sessions(in_subject text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    live bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(in_subject, 1));
    WITH gone AS (DELETE FROM sessions WHERE subject = in_subject RETURNING idle_end_ms)
    SELECT count(*) FILTER (WHERE idle_end_ms > now_ms()) INTO live FROM gone;
    RETURN live;
END
$$
