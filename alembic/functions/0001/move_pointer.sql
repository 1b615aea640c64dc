-- Writes the revision after `expected` with its audit entry and points at it, if `expected` is active.
CREATE FUNCTION move_pointer(
    expected bigint, in_document bytea, in_action text, in_target text, in_operator text, in_scope text,
    in_client text, in_request_id text
) RETURNS TABLE (moved boolean, active bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    -- Writers one after the other, in an empty store too, where there is no row to lock.
    PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || '.pointer', 2));
    SELECT p.revision INTO active FROM pointer p;
    active := coalesce(active, 0);
    moved := active = expected;
    IF moved THEN
        active := expected + 1;
        INSERT INTO revisions (revision, document, time_ms, operator, action)
            VALUES (active, in_document, now_ms(), in_operator, in_action);
        INSERT INTO pointer (id, revision) VALUES (1, active)
            ON CONFLICT (id) DO UPDATE SET revision = excluded.revision;
        PERFORM append_audit(in_action, in_target, in_operator, in_scope, in_client, in_request_id);
        PERFORM pg_notify(current_schema() || '_table', active::text);
    END IF;
    RETURN NEXT;
END
$$
