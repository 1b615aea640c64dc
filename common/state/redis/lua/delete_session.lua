-- Deletes a session. KEYS: the session, the index of all. ARGV: id hash, what precedes a subject's digest in the key of
-- its index. Answers {values that were not ours, whether there was one}.
redis.pcall('ZREM', KEYS[2], ARGV[1])
local value = redis.pcall('GET', KEYS[1])
if not value then return {0, 0} end
redis.call('DEL', KEYS[1])
local _, _, _, _, digest = session_record(value)
if not digest then return {1, 0} end
redis.pcall('ZREM', ARGV[2] .. digest, ARGV[1])
return {0, 1}
