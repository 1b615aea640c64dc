CREATE FUNCTION decisions_dropped() RETURNS bigint LANGUAGE sql AS $$
    SELECT count FROM decision_drops WHERE id = 1
$$
