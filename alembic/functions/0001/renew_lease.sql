-- Extends a lease, or gives it up (`keep_ms` 0); its end, NULL when it is not held any more.
CREATE FUNCTION renew_lease(in_name text, in_owner text, in_fence bigint, keep_ms bigint)
RETURNS bigint LANGUAGE sql AS $$
    UPDATE leases l SET end_ms = CASE WHEN keep_ms > 0 THEN n + keep_ms ELSE 0 END FROM now_ms() n
        WHERE l.name = in_name AND l.owner = in_owner AND l.fence = in_fence AND l.end_ms > n
        RETURNING l.end_ms
$$
