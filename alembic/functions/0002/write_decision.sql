CREATE FUNCTION write_decision(
    in_key bytea, in_subject bytea, in_workspace bytea, in_allow boolean, in_reason_code text, keep_ms bigint
) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO decisions (key, subject, workspace, allow, reason_code, decided_ms, end_ms)
        SELECT in_key, in_subject, in_workspace, in_allow, in_reason_code, n, n + keep_ms FROM now_ms() n
        ON CONFLICT (key) DO UPDATE SET subject = excluded.subject, workspace = excluded.workspace,
            allow = excluded.allow, reason_code = excluded.reason_code, decided_ms = excluded.decided_ms,
            end_ms = excluded.end_ms
        RETURNING decided_ms
$$
