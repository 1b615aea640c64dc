-- Looks at the next `pages` pages of the budgets and removes the rows whose time is over. Answers how many, and whether
-- the round through the table goes on. Rounds begin at least `every_ms` apart, whoever asks; of sweeps at once, one works.
-- An index on the end would find the rows, and cost every count more than this costs the server: a row in use ends later
-- with each bucket.
CREATE FUNCTION sweep_budgets(pages bigint, every_ms bigint) RETURNS TABLE (removed bigint, goes_on boolean)
LANGUAGE plpgsql AS $$
DECLARE
    now bigint := now_ms();
    place bigint;
    began bigint;
    first tid;
    beyond tid;
BEGIN
    removed := 0;
    goes_on := false;
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.sweep', 4)) THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT s.place, s.began_ms INTO place, began FROM sweeps s WHERE s.id = 1;
    IF place IS NULL OR place = 0 THEN
        IF began > now - every_ms AND began <= now THEN
            RETURN NEXT;
            RETURN;
        END IF;
        place := 0;
        began := now;
    END IF;
    first := format('(%s,0)', place)::tid;
    beyond := format('(%s,0)', place + pages)::tid;
    -- Rows in use are left for the next time: a request never waits for the sweep.
    DELETE FROM budgets WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM budgets WHERE ctid >= first AND ctid < beyond AND end_ms <= now FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    place := place + pages;
    goes_on := place * current_setting('block_size')::bigint < pg_relation_size('budgets');
    IF NOT goes_on THEN
        place := 0;
    END IF;
    INSERT INTO sweeps AS s (id, place, began_ms) VALUES (1, place, began)
        ON CONFLICT (id) DO UPDATE SET place = excluded.place, began_ms = excluded.began_ms;
    RETURN NEXT;
END
$$
