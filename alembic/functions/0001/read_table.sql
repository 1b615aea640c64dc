-- The active revision and its document, which is NULL when it is the known one; no row in an empty store.
CREATE FUNCTION read_table(known bigint) RETURNS TABLE (revision bigint, document bytea) LANGUAGE sql AS $$
    SELECT r.revision, CASE WHEN r.revision <> known THEN r.document END
    FROM pointer p JOIN revisions r ON r.revision = p.revision
$$
