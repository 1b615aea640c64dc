CREATE FUNCTION read_challenge(in_token text) RETURNS text LANGUAGE sql AS $$
    SELECT answer FROM challenges WHERE token = in_token AND end_ms > now_ms()
$$
