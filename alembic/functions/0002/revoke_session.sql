-- Deletes the one live session whose id's hash begins with the handle, with an audit entry; how many there were.
CREATE FUNCTION revoke_session(
    handle text, in_action text, in_target text, in_operator text, in_scope text, in_client text, in_request_id text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    told bigint := now_ms();
    found_hashes text[];
BEGIN
    -- Nothing that a hash is made of comes after a tilde.
    SELECT array_agg(s.id_hash) INTO found_hashes FROM sessions s
        WHERE s.id_hash >= handle AND s.id_hash < handle || '~' AND s.idle_end_ms > told;
    IF cardinality(found_hashes) = 1 THEN
        DELETE FROM sessions s WHERE s.id_hash = found_hashes[1] AND s.idle_end_ms > told;
        -- Else somebody was faster, who recorded it.
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        PERFORM append_audit(in_action, in_target, in_operator, in_scope, in_client, in_request_id);
    END IF;
    RETURN coalesce(cardinality(found_hashes), 0);
END
$$
