CREATE FUNCTION append_audit(
    in_action text, in_target text, in_operator text, in_scope text, in_client text, in_request_id text
) RETURNS TABLE (id bigint, time_ms bigint) LANGUAGE sql AS $$
    -- The trail is what must survive a crash, whatever the connection was opened with.
    SELECT set_config('synchronous_commit', 'on', true);
    INSERT INTO audit AS a (time_ms, action, target, operator, scope, client, request_id)
        VALUES (now_ms(), in_action, in_target, in_operator, in_scope, in_client, in_request_id)
        RETURNING a.id, a.time_ms
$$
