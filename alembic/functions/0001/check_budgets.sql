-- Counts requests against budgets: the sliding window of common/state/budgets.py, by this server's clock.
-- Of each budget: key, limit, window, bucket, and how many requests ask. Answers as many rows, with their places:
-- how many of the requests are granted, how many were counted before, when the oldest bucket leaves, and when fewer
-- than the limit are counted.
CREATE FUNCTION check_budgets(keys bytea[], limits bigint[], windows bigint[], buckets bigint[], asks bigint[])
RETURNS TABLE (place bigint, granted bigint, used bigint, reset_ms bigint, wait_ms bigint, told bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    ask record;
    prior_newest bigint;
    prior_used bigint;
    prior_counts bigint[];
    lasts bigint;
    now bigint;
    bucket bigint;
    passed bigint;
    counts bigint[];
    kept bigint[];
    total bigint;
    oldest bigint;
    remaining bigint;
    at integer;
BEGIN
    -- In one order for everybody: whoever waits for a row holds none that another one waits for.
    FOR ask IN
        SELECT * FROM unnest(keys, limits, windows, buckets, asks) WITH ORDINALITY
            AS t (key, most, window_ms, bucket_ms, count, place)
        ORDER BY t.key, t.window_ms, t.bucket_ms, t.place
    LOOP
        lasts := (ask.window_ms + ask.bucket_ms - 1) / ask.bucket_ms + 1;
        LOOP
            SELECT b.newest, b.used, b.counts INTO prior_newest, prior_used, prior_counts FROM budgets b
                WHERE b.key = ask.key AND b.window_ms = ask.window_ms AND b.bucket_ms = ask.bucket_ms FOR UPDATE;
            EXIT WHEN FOUND;
            now := now_ms();
            bucket := now / ask.bucket_ms;
            granted := greatest(least(ask.count, ask.most), 0);
            INSERT INTO budgets (key, window_ms, bucket_ms, newest, used, counts, end_ms)
                VALUES (ask.key, ask.window_ms, ask.bucket_ms, bucket, granted, ARRAY[0, granted],
                        (bucket + lasts) * ask.bucket_ms)
                ON CONFLICT DO NOTHING;
            IF FOUND THEN
                counts := ARRAY[0, granted];
                used := 0;
                EXIT;
            END IF;
        END LOOP;

        IF prior_newest IS NOT NULL THEN
            -- Read after the row was locked: whoever held it before saw an earlier time.
            now := now_ms();
            bucket := now / ask.bucket_ms;
            counts := prior_counts;
            used := prior_used;
            IF prior_newest > bucket + lasts OR cardinality(counts) % 2 = 1 THEN
                -- Ahead by more than a window: the clock was set back since. Or not ours.
                counts := '{}';
                used := 0;
            ELSIF prior_newest > bucket THEN
                -- The clock stepped back: time stands still for this key until it has caught up.
                bucket := prior_newest;
                now := greatest(now, bucket * ask.bucket_ms);
            ELSIF prior_newest < bucket THEN
                passed := bucket - prior_newest;
                kept := '{}';
                used := 0;
                FOR at IN 1 .. cardinality(counts) BY 2 LOOP
                    IF counts[at] + passed < lasts THEN
                        kept := kept || ARRAY[counts[at] + passed, counts[at + 1]];
                        used := used + counts[at + 1];
                    END IF;
                END LOOP;
                counts := kept;
            END IF;
            granted := greatest(least(ask.count, ask.most - used), 0);
            IF granted > 0 THEN
                at := cardinality(counts);
                IF at > 0 AND counts[at - 1] = 0 THEN
                    counts[at] := counts[at] + granted;
                ELSE
                    counts := counts || ARRAY[0, granted];
                END IF;
                UPDATE budgets b SET newest = bucket, used = used + granted, counts = counts,
                        end_ms = (bucket + lasts) * ask.bucket_ms
                    WHERE b.key = ask.key AND b.window_ms = ask.window_ms AND b.bucket_ms = ask.bucket_ms;
            END IF;
        END IF;

        total := used + granted;
        oldest := coalesce(counts[1], 0);
        reset_ms := (bucket - oldest + lasts) * ask.bucket_ms - now;
        at := 1;
        WHILE total >= ask.most AND at < cardinality(counts) LOOP
            oldest := counts[at];
            total := total - counts[at + 1];
            at := at + 2;
        END LOOP;
        wait_ms := (bucket - oldest + lasts) * ask.bucket_ms - now;
        place := ask.place;
        told := now;
        RETURN NEXT;
    END LOOP;
END
$$
