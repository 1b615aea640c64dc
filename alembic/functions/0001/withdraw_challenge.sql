CREATE FUNCTION withdraw_challenge(in_token text) RETURNS boolean LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM challenges WHERE token = in_token RETURNING end_ms)
    SELECT coalesce((SELECT end_ms > now_ms() FROM gone), false)
$$
