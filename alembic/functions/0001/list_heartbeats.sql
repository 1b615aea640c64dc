CREATE FUNCTION list_heartbeats()
RETURNS TABLE (replica text, revision bigint, last_error text, time_ms bigint) LANGUAGE sql AS $$
    SELECT h.replica, h.revision, h.last_error, h.time_ms FROM heartbeats h WHERE h.end_ms > now_ms()
$$
