CREATE FUNCTION publish_challenge(in_token text, in_answer text, keep_ms bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO challenges (token, answer, end_ms) VALUES (in_token, in_answer, now_ms() + keep_ms)
        ON CONFLICT (token) DO UPDATE SET answer = excluded.answer, end_ms = excluded.end_ms
$$
