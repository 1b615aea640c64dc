-- Stores a decision, unless one is there whose question was asked later; of two of one moment a denial stands. Answers
-- the time. One from the future does not count: the clock was set back since, and its age cannot be told.
CREATE FUNCTION write_decision(
    in_key bytea, in_subject bytea, in_workspace bytea, in_allow boolean, in_reason_code text, asked_at_ms bigint,
    keep_ms bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint := now_ms();
    asked bigint := least(asked_at_ms, now);
BEGIN
    INSERT INTO decisions AS d (key, subject, workspace, allow, reason_code, decided_ms, end_ms)
        VALUES (in_key, in_subject, in_workspace, in_allow, in_reason_code, asked, asked + keep_ms)
        ON CONFLICT (key) DO UPDATE SET subject = excluded.subject, workspace = excluded.workspace,
            allow = excluded.allow, reason_code = excluded.reason_code, decided_ms = excluded.decided_ms,
            end_ms = excluded.end_ms
        WHERE d.decided_ms < asked OR d.decided_ms > now OR (d.decided_ms = asked AND d.allow) OR d.end_ms <= now;
    RETURN now;
END
$$
