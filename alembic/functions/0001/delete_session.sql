-- Deletes a session; whether there was one.
CREATE FUNCTION delete_session(in_id_hash text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    ends bigint;
BEGIN
    DELETE FROM sessions WHERE id_hash = in_id_hash RETURNING idle_end_ms INTO ends;
    RETURN FOUND AND ends > now_ms();
END
$$
