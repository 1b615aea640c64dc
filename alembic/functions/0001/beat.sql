CREATE FUNCTION beat(in_replica text, in_revision bigint, in_last_error text, keep_ms bigint)
RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO heartbeats (replica, revision, last_error, time_ms, end_ms)
        SELECT in_replica, in_revision, in_last_error, n, n + keep_ms FROM now_ms() n
        ON CONFLICT (replica) DO UPDATE SET revision = excluded.revision, last_error = excluded.last_error,
            time_ms = excluded.time_ms, end_ms = excluded.end_ms
        RETURNING time_ms
$$
