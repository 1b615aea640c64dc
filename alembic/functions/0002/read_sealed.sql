CREATE FUNCTION read_sealed(in_name text) RETURNS TABLE (blob bytea, fence bigint) LANGUAGE sql AS $$
    SELECT s.blob, s.fence FROM sealed s WHERE s.name = in_name
$$
