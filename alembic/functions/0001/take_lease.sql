-- Takes a lease, or extends the owner's; no row while another has it.
CREATE FUNCTION take_lease(in_name text, in_owner text, keep_ms bigint)
RETURNS TABLE (fence bigint, end_ms bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    now bigint;
BEGIN
    -- Locked first, so that the time is one at which nobody else changes the lease.
    INSERT INTO leases AS l (name, owner, fence, end_ms) VALUES (in_name, '', 0, 0) ON CONFLICT DO NOTHING;
    PERFORM FROM leases l WHERE l.name = in_name FOR UPDATE;
    now := now_ms();
    RETURN QUERY
        UPDATE leases l SET owner = in_owner, end_ms = now + keep_ms,
            fence = CASE WHEN l.end_ms > now THEN l.fence ELSE l.fence + 1 END
        WHERE l.name = in_name AND (l.owner = in_owner OR l.end_ms <= now)
        RETURNING l.fence, l.end_ms;
END
$$
