-- Writes a sealed value; false, and nothing changed, where one with a higher fence is there.
CREATE FUNCTION write_sealed(in_name text, in_blob bytea, in_fence bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    -- An authority gives a certificate a few times a week only.
    PERFORM set_config('synchronous_commit', 'on', true);
    INSERT INTO sealed AS s (name, blob, fence) VALUES (in_name, in_blob, in_fence)
        ON CONFLICT (name) DO UPDATE SET blob = excluded.blob, fence = excluded.fence
        WHERE s.fence <= excluded.fence;
    RETURN FOUND;
END
$$
