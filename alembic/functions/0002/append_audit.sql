-- Adds an entry to the audit trail: entries one after the other, so that neither id nor time ever falls.
CREATE FUNCTION append_audit(
    in_action text, in_target text, in_operator text, in_scope text, in_client text, in_request_id text
) RETURNS TABLE (id bigint, time_ms bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    -- The trail is what must survive a crash, whatever the connection was opened with.
    PERFORM set_config('synchronous_commit', 'on', true);
    -- Whoever calls this has done all else by then, so nobody waits for more than this.
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.audit', 5));
    RETURN QUERY
        INSERT INTO audit AS a (time_ms, action, target, operator, scope, client, request_id)
        VALUES (
            greatest(now_ms(), (SELECT last.time_ms FROM audit last ORDER BY last.id DESC LIMIT 1)),
            in_action, in_target, in_operator, in_scope, in_client, in_request_id
        )
        RETURNING a.id, a.time_ms;
END
$$
