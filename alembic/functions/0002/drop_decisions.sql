-- Forgets the decisions of a subject, of a workspace, or of both (NULL: any), with an audit entry, and raises the
-- number of drops; how many live ones there were. One that does not say whose it is may be anybody's.
CREATE FUNCTION drop_decisions(
    in_subject bytea, in_workspace bytea, in_action text, in_target text, in_operator text, in_scope text,
    in_client text, in_request_id text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    live bigint;
    number bigint;
BEGIN
    -- First, so that drops come one after the other: two at once would wait for each other's rows.
    UPDATE decision_drops SET count = count + 1 WHERE id = 1 RETURNING count INTO STRICT number;
    IF in_workspace IS NULL THEN
        WITH gone AS (
            DELETE FROM decisions d WHERE d.subject = in_subject OR d.subject IS NULL RETURNING d.end_ms
        )
        SELECT count(*) FILTER (WHERE end_ms > now_ms()) INTO live FROM gone;
    ELSIF in_subject IS NULL THEN
        WITH gone AS (
            DELETE FROM decisions d WHERE d.workspace = in_workspace OR d.workspace IS NULL RETURNING d.end_ms
        )
        SELECT count(*) FILTER (WHERE end_ms > now_ms()) INTO live FROM gone;
    ELSE
        WITH gone AS (
            DELETE FROM decisions d
                WHERE d.subject = in_subject AND d.workspace = in_workspace OR d.subject IS NULL
                RETURNING d.end_ms
        )
        SELECT count(*) FILTER (WHERE end_ms > now_ms()) INTO live FROM gone;
    END IF;
    PERFORM append_audit(in_action, in_target, in_operator, in_scope, in_client, in_request_id);
    PERFORM pg_notify(current_schema() || '_table', 'decisions ' || number);
    RETURN live;
END
$$
