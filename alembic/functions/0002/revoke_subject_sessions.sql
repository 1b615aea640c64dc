-- Deletes every session of a subject with an audit entry; how many live ones there were.
CREATE FUNCTION revoke_subject_sessions(
    in_subject text, in_action text, in_target text, in_operator text, in_scope text, in_client text,
    in_request_id text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    live bigint := delete_subject_sessions(in_subject);
BEGIN
    PERFORM append_audit(in_action, in_target, in_operator, in_scope, in_client, in_request_id);
    RETURN live;
END
$$
