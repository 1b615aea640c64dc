-- How long until an address may be judged again, in milliseconds; 0 for now.
CREATE FUNCTION auth_failure_wait(in_address text, most bigint, window_ms bigint) RETURNS bigint LANGUAGE sql AS $$
    SELECT CASE WHEN count(t) >= most THEN min(t) + window_ms - n ELSE 0 END
        FROM now_ms() n LEFT JOIN auth_failures f ON f.address = in_address LEFT JOIN unnest(f.times) t
            ON t > n - window_ms AND t < n + window_ms
        GROUP BY n
$$
