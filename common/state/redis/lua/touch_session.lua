-- Extends a session. KEYS: the session. ARGV: idle ms.
-- Answers {now ms, values that were not ours, the new record}, without a record when the session is over.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.pcall('GET', KEYS[1])
if not value then return {now, 0} end
local created, _, _, expires, digest, body = session_record(value)
if not created then return {now, 1} end
local idle = math.min(now + tonumber(ARGV[1]), tonumber(expires))
local record = string.format('s1 %s %.0f %.0f %s %s %s', created, now, idle, expires, digest, body)
redis.call('SET', KEYS[1], record, 'PXAT', string.format('%.0f', idle - 1))
return {now, 0, record}
